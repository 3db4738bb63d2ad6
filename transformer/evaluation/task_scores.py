"""What every task reports of a test set: scores, as lines for a person and as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from etils import epath
from tabulate import tabulate

import transformer
from transformer.evaluation.results import json_lines, write_results
from transformer.evaluation.scores import Score
from transformer.workdir import WorkDir

T = TypeVar("T")
NUM_SAMPLES = 3
SIDES = {"l": "left", "r": "right"}


@dataclass(kw_only=True)
class TaskScores:
    """Scores of one checkpoint on one test set.

    scores: by their keys in report.json, the primary one (by which runs are compared) first.
    step, num_averaged: of the checkpoint, as those of `checkpoints.Loaded`; None: in memory.
    details: what else is worth knowing, line by line. samples: some outputs, each beside what it
    should have been. rows: one JSON object per example.
    """

    checkpoint: str
    step: int | None = None
    num_averaged: int = 1
    corpus: str
    scores: dict[str, Score]
    details: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

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

    def scores_to_json(self) -> dict[str, Any]:
        """Returns the scores for a JSON file, by their keys."""
        return {key: score.to_json() for key, score in self.scores.items()}

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds."""
        return {
            "version": transformer.__version__,
            "checkpoint": self.checkpoint,
            "corpus": self.corpus,
            **self.scores_to_json(),
        }

    def save(self, workdir: WorkDir, name: str) -> epath.Path:
        """Writes results/NAME/ of a work directory; returns the path of its report.json."""
        files = {"examples.jsonl": json_lines(self.rows)} if self.rows else {}
        return write_results(workdir, name, self.to_json() | {"details": self.details}, files)


def spread(rows: Sequence[T]) -> Sequence[T]:
    """Returns some rows as samples, spread over all."""
    return rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]


def plain_table(
    rows: Sequence[Mapping[str, str]] | Sequence[Sequence[str]],
    align: str,
    headers: Sequence[str] = (),
    style: str = "plain",
) -> list[str]:
    """Returns the lines of a table, whose headers are the keys of rows that are mappings.

    align: "l" or "r" for each column, the last for all further ones. style: tabulate's.
    """
    if not rows:
        return []
    names = headers or ("keys" if isinstance(rows[0], Mapping) else ())
    sides = [SIDES[side] for side in align.ljust(len(rows[0]), align[-1])]
    return tabulate(rows, names, style, colalign=sides, disable_numparse=True).splitlines()
