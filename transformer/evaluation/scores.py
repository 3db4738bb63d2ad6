"""A score with all that is needed to compare it, and the scores of a test set, of every task.

Perplexity and accuracy are computed here.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from etils import epath
from sacrebleu.significance import estimate_ci
from tabulate import tabulate

import transformer
from transformer.console import quantity
from transformer.data.files.text import folder_name
from transformer.files import storage
from transformer.model.loss import perplexity
from transformer.workdir import WorkDir

Table = list[dict[str, str]]  # rows of cells by their headers

FEWEST_FOR_INTERVAL = 50  # sentences; a bootstrap of seven that are right says ± 0
NUM_BOOTSTRAP = 1000  # resamples behind a 95% interval
NUM_SAMPLES = 3  # outputs that are shown
SIDES = {"l": "left", "r": "right"}


@dataclass
class Score:
    """One score of a test set.

    signature: how it was computed, in sacrebleu's notation.
    direction: what it is a score of, shown beside the count: "en-de", or "6 classes".
    num_sentences: number of examples that count, named by `unit`.
    interval: half the width of the 95% interval; None: not computed.
    """

    name: str
    value: float
    signature: str
    direction: str
    num_sentences: int
    interval: float | None = None
    unit: str = "sentences"

    @property
    def digits(self) -> int:
        """The number of decimals that are printed: three of a loss or a perplexity, else two."""
        return 3 if "smooth:no" in self.signature.split("|") else 2

    @property
    def figures(self) -> str:
        """The value and its interval as printed: "25.00 ± 3.10"."""
        around = f" ± {self.interval:.{self.digits}f}" if self.interval is not None else ""
        return f"{self.value:.{self.digits}f}{around}"

    def __str__(self) -> str:
        count = quantity(self.num_sentences, self.unit.removesuffix("s"))
        if self.interval is None and self.num_sentences < FEWEST_FOR_INTERVAL:
            count += ": too few for an interval"
        return f"{self.name} {self.figures}  ({self.direction}, {count})  {self.signature}"

    def to_json(self) -> dict[str, Any]:
        """Returns the fields; a value that is not finite becomes null."""
        return asdict(self) | ({} if math.isfinite(self.value) else {"value": None})

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Returns the score that `to_json` wrote; a value that was not finite is infinite."""
        score = cls(**record)
        score.value = math.inf if score.value is None else score.value
        return score


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
        return next(iter(self.scores.values()))

    @property
    def names(self) -> dict[str, str]:
        """{key: name} of the scores, no two names alike: COMET by two models has its keys too."""
        labels = [score.name for score in self.scores.values()]
        return {
            key: name if labels.count(name) == 1 else f"{name} ({key})"
            for key, name in zip(self.scores, labels, strict=True)
        }

    def __repr__(self) -> str:
        """As "Evaluation(embedded test, best (600): BLEU 98.12 ± 0.40, chrF2 …)"."""
        figures = ", ".join(f"{score.name} {score.figures}" for score in self.scores.values())
        return f"{type(self).__name__}({self.corpus}, {self.checkpoint}: {figures})"

    def lines(self) -> list[str]:
        return [str(score) for score in self.scores.values()]

    def scores_to_json(self) -> dict[str, Any]:
        return {key: score.to_json() for key, score in self.scores.items()}

    def to_json(self) -> dict[str, Any]:
        facts = {"checkpoint": self.checkpoint, "corpus": self.corpus}
        return {"version": transformer.__version__, **facts, **self.scores_to_json()}

    def save(
        self, workdir: WorkDir, name: str, checkpoints: Sequence["TaskScores"] = ()
    ) -> epath.Path:
        """Writes results/NAME/ and returns the path of its report.json.

        checkpoints: the scores of all that were evaluated, of a run of translation.
        """
        files = {"examples.jsonl": self.rows} if self.rows else {}
        return write_results(workdir, name, self.to_json() | {"details": self.details}, files)


def write_results(
    workdir: WorkDir, name: str, record: dict[str, Any], files: Mapping[str, str | list[Any]]
) -> epath.Path:
    """Writes results/NAME/: `record` as report.json, and the other `files`; a split may be NAME.

    files: text, or rows of which each becomes a line of JSON. Hosts that do not write leave it out.
    Returns the path of report.json.
    """
    folder = workdir / "results" / folder_name(name)
    if workdir.writes:
        folder.mkdir(parents=True, exist_ok=True)
        report = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        for file, content in {**files, "report.json": report}.items():
            if isinstance(content, list):
                rows = (json.dumps(row, ensure_ascii=False) for row in content)
                content = "".join(f"{row}\n" for row in rows)
            storage.write_atomically(folder / file, content)
    return folder / "report.json"


def corpus_perplexity(
    reference_scores: Sequence[tuple[float, int]],
    direction: str,
    *,
    vocab_size: int,
    num_bootstrap: int = 1,
) -> Score:
    """Returns the perplexity of references under a model, per token of its vocabulary.

    reference_scores: the log-probability of each, and its tokens, counted with EOS. References with
    nan are left out; of none at all the value is nan. num_bootstrap: as in `metrics`, with
    sacrebleu's seed.
    """
    log_probs, lengths = np.array(reference_scores, float).T
    is_scored = ~np.isnan(log_probs)
    nll, lengths = -log_probs[is_scored], lengths[is_scored]
    value, interval = perplexity(nll.sum(), lengths.sum()) if len(nll) else math.nan, None
    signature = f"unit:piece|eos:yes|vocab:{vocab_size}|smooth:no|dropout:no"
    if num_bootstrap > 1 and len(nll) >= FEWEST_FOR_INTERVAL:
        seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
        rng = np.random.default_rng(None if seed == "none" else int(seed))
        rows = rng.choice(len(nll), size=(num_bootstrap, len(nll)), replace=True)
        means = nll[rows].sum(1) / lengths[rows].sum(1)
        signature = f"bs:{num_bootstrap}|seed:{seed}|{signature}"
        if math.isfinite(value):  # exp(700) is close to the largest float
            interval = float(estimate_ci(np.exp(np.minimum(means, 700)))[1])
    return Score("perplexity", value, signature, direction, len(nll), interval)


def accuracy(is_right: Sequence[bool], direction: str, unit: str = "examples") -> Score:
    """Returns the percentage of True, with half the width of Wilson's 95% interval."""
    number, z = len(is_right), 1.959964
    share = sum(is_right) / number
    half = z * math.sqrt(share * (1 - share) / number + (z / (2 * number)) ** 2)
    interval = 100 * half / (1 + z * z / number)
    return Score("accuracy", 100 * share, "interval:wilson", direction, number, interval, unit)


def samples(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns some rows as samples, spread over all: a line for each of the named cells."""
    rows, width = list(rows), max(map(len, names))
    return [
        "".join(f"  {name:{width}}  {row[name]}\n" for name in names)
        for row in rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]
    ]


def plain_table(
    rows: Sequence[Mapping[str, str]] | Sequence[Sequence[str]], align: str, style: str = "plain"
) -> list[str]:
    """Returns the lines of a table, whose headers are the keys of rows that are mappings.

    align: "l" or "r" for each column, the last for all further ones. style: tabulate's.
    """
    if not rows:
        return []
    lines = [list(row.values()) if isinstance(row, Mapping) else row for row in rows]
    if isinstance(rows[0], Mapping):
        lines.insert(0, list(rows[0]))
    sides = [SIDES[side] for side in align.ljust(len(lines[0]), align[-1])]
    heads = () if style == "plain" else "firstrow"  # tabulate widens columns that have heads
    return tabulate(lines, heads, style, colalign=sides, disable_numparse=True).splitlines()


def checkpoint_table(checkpoints: Sequence[TaskScores]) -> list[str]:
    """Returns the lines of a table with the scores of each checkpoint."""
    rows = [
        {"checkpoint": row.checkpoint}
        | {name: row.scores[key].figures for key, name in row.names.items()}
        for row in checkpoints
    ]
    return plain_table(rows, "lr")
