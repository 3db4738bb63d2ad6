"""What every task reports of a test set: scores, as lines for a person and as files."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from etils import epath
from tabulate import tabulate

import transformer
from transformer.data.files.splits import folder_name
from transformer.evaluation.scores import Score
from transformer.files.storage import write_atomically
from transformer.workdir import WorkDir


@dataclass(kw_only=True)
class TaskScores(ABC):
    """Scores of one checkpoint on one test set.

    scores: by their keys in report.json, the primary one (by which runs are compared) first.
    """

    checkpoint: str
    corpus: str
    scores: dict[str, Score]

    @property
    def primary(self) -> Score:
        """The score by which runs are compared first."""
        return next(iter(self.scores.values()))

    def __repr__(self) -> str:
        """As "Evaluation(embedded test, best (600): BLEU 98.12 ± 0.40, chrF2 …)"."""
        figures = ", ".join(f"{score.name} {score.figures}" for score in self.scores.values())
        return f"{type(self).__name__}({self.corpus}, {self.checkpoint}: {figures})"

    def lines(self) -> list[str]:
        """Returns what a person reads first: one line per score, each with its signature."""
        return [str(score) for score in self.scores.values()]

    @abstractmethod
    def detail_lines(self) -> list[str]:
        """Returns what else is worth knowing, line by line."""

    @abstractmethod
    def sample_lines(self) -> list[str]:
        """Returns some outputs, each beside what it should have been."""

    @abstractmethod
    def save(self, workdir: WorkDir, name: str) -> epath.Path:
        """Writes results/NAME/ of a work directory; returns the path of its report.json."""

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds."""
        return {
            "version": transformer.__version__,
            "checkpoint": self.checkpoint,
            "corpus": self.corpus,
            **{name: score.to_json() for name, score in self.scores.items()},
        }


@dataclass(kw_only=True, repr=False)
class SimpleScores(TaskScores):
    """Scores of a classifier or a language model. rows: one JSON object per example."""

    details: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def detail_lines(self) -> list[str]:
        return self.details

    def sample_lines(self) -> list[str]:
        return self.samples

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"details": self.details}

    def save(self, workdir: WorkDir, name: str) -> epath.Path:
        files = {"examples.jsonl": json_lines(self.rows)} if self.rows else {}
        return write_results(workdir, name, self.to_json(), files)


def plain_table(
    rows: Sequence[Sequence[str]], align: Sequence[str], headers: Sequence[str] = ()
) -> list[str]:
    """Returns the lines of a table; align: "left" or "right" for each column."""
    table = tabulate(rows, headers, "plain", colalign=align, disable_numparse=True)
    return table.splitlines()


def json_lines(rows: Iterable[dict[str, Any]]) -> str:
    """Returns one line of JSON per row."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def write_results(
    workdir: WorkDir, name: str, record: dict[str, Any], files: dict[str, str]
) -> epath.Path:
    """Writes results/NAME/: `record` as report.json, and the other `files`; a split may be NAME.

    Writes nothing on hosts that do not write. Returns the path of report.json.
    """
    folder = workdir / "results" / folder_name(name)
    report = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    if workdir.writes:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in (files | {"report.json": report}).items():
            write_atomically(folder / file, content)
    return folder / "report.json"
