"""Compares runs on the same test set: is one better than the first, and in what do they differ?"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sacrebleu.metrics import CHRF

import transformer
from transformer.config import Config
from transformer.evaluation import metrics
from transformer.evaluation.compared_run import ComparedRun
from transformer.evaluation.evaluation import NUM_BOOTSTRAP
from transformer.evaluation.paired_tests import (
    NUM_TRIALS,
    PairedDifference,
    paired_differences,
)
from transformer.evaluation.scores import Score
from transformer.evaluation.segments import Segment, text_sides


class SegmentPair(NamedTuple):
    """The same sentence of the test set as the first run and as another translated it."""

    first: Segment
    other: Segment


@dataclass(frozen=True)
class Comparison:
    """Runs with their scores on one test set, all by the metrics of the first.

    names: of the runs, no two alike. differences: of each other run from the first; empty for
    other tasks than translation.
    """

    names: list[str]
    runs: list[ComparedRun]
    differences: list[PairedDifference]

    @property
    def first(self) -> ComparedRun:
        """The run with which the others are compared."""
        return self.runs[0]

    def settings(self) -> dict[str, list[Any]]:
        """Returns {flag: value in each run} of the settings in which the runs differ.

        A 0 that stands for the value of another setting is shown as that value.
        """
        stated = [run.config.values() for run in self.runs]
        meant = [run.config.effective_values() for run in self.runs]
        return {
            f"--config.{name}": [values[name] for values in meant]
            for name in stated[0]
            if all(len({values[name] for values in runs}) > 1 for runs in (stated, meant))
        }

    def has_comparable_perplexity(self, run: ComparedRun) -> bool:
        """Whether a run's perplexity is of the tokens and the references of the first run's."""
        ours, theirs = (side.scores.get("perplexity") for side in (self.first, run))
        if not ours or not theirs or run.vocabulary != self.first.vocabulary:
            return False
        return ours.num_sentences == theirs.num_sentences

    def differing_segments(self, system: int, count: int = 5) -> dict[str, list[SegmentPair]]:
        """Returns {title: pairs} for the `count` largest differences of chrF in each direction.

        system: the position of the other run, from 1.
        """
        sides = zip(self.first.segments, self.runs[system].segments, strict=True)
        pairs = [SegmentPair(*pair) for pair in sides]
        pairs.sort(key=lambda pair: (pair.first.chrf - pair.other.chrf, pair.first.number))
        ahead = [pair for pair in pairs if pair.other.chrf > pair.first.chrf][:count]
        behind = [pair for pair in pairs[::-1] if pair.other.chrf < pair.first.chrf][:count]
        name = self.names[system]
        return {f"{name} is ahead": ahead, f"{name} is behind": behind}

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds of this comparison."""
        return {
            "version": transformer.__version__,
            "corpus": self.first.corpus,
            "runs": [
                {
                    "name": name,
                    **run.to_json(),
                    "has_comparable_perplexity": self.has_comparable_perplexity(run),
                }
                for name, run in zip(self.names, self.runs, strict=True)
            ],
            "differences": [
                {"run": self.names[found.system], **dataclasses.asdict(found)}
                for found in self.differences
            ],
            "settings": self.settings(),
        }


def check_comparable(config: Config, other: Config, name: str) -> None:
    """Raises ValueError unless two runs can translate the same test set; name: of the other."""

    def text_kinds(config: Config) -> tuple[str, ...]:
        data, tokenizer = config.data, config.tokenizer
        return (
            f"task={config.task}",
            f"{data.source_language}-{data.target_language}",
            f"tokenizer.kind={tokenizer.kind}",
            f"tokenizer.target_kind={tokenizer.kinds[1]}",
        )

    for ours, theirs in zip(text_kinds(config), text_kinds(other), strict=True):
        if ours != theirs:
            raise ValueError(
                f"--compare needs runs that translate the same text: the first has {ours}, {name} "
                f"{theirs}."
            )


def compare(
    runs: Sequence[ComparedRun],
    *,
    num_bootstrap: int = NUM_BOOTSTRAP,
    num_trials: int = NUM_TRIALS,
) -> Comparison:
    """Compares each run with the first by the primary metric of the first, and by chrF2.

    num_bootstrap, num_trials: number of samples of the paired bootstrap and of the randomisation.
    Raises ValueError if the runs were scored on different references.
    """
    untested = without_tests(runs)
    if not all(run.segments for run in runs):
        return untested
    names, references = untested.names, text_sides(runs[0].segments)[1]
    for name, run in zip(names, runs, strict=True):
        if text_sides(run.segments)[1] != references:
            raise ValueError(
                f"{names[0]} and {name} have different references for the same test set (another "
                f"test set, or tokenizers that join words differently), so their scores cannot be "
                f"compared."
            )
    scored = [_score_as(runs[0], run, num_bootstrap) for run in runs]
    data, primary = runs[0].config.data, next(iter(scored[0].scores.values()))
    differences = paired_differences(
        [text_sides(run.segments)[0] for run in scored],
        references,
        {
            primary.name: metrics.make_metric(data.selection_metric, tokenize=data.bleu_tokenize),
            "chrF2": CHRF(),
        },
        num_bootstrap=num_bootstrap,
        num_trials=num_trials,
    )
    return Comparison(names, scored, differences)


def without_tests(runs: Sequence[ComparedRun]) -> Comparison:
    """Returns runs beside each other with the scores that they have."""
    names = distinct_names([run.path for run in runs], [run.checkpoint for run in runs])
    return Comparison(names, list(runs), [])


def _score_as(first: ComparedRun, run: ComparedRun, num_bootstrap: int) -> ComparedRun:
    """Returns a run with scores by the metric and the tokenisation of the first."""
    data = first.config.data
    key = data.selection_metric
    scores: dict[str, Score] = {name: run.scores[name] for name in ("chrf", "perplexity")}
    ours, theirs = ((d.selection_metric, d.bleu_tokenize) for d in (data, run.config.data))
    if ours == theirs:
        primary = run.scores[key]
    else:
        primary = metrics.score_by(
            key,
            *text_sides(run.segments),
            direction=run.scores["chrf"].direction,
            tokenize=data.bleu_tokenize,
            num_bootstrap=num_bootstrap,
        )
    return dataclasses.replace(run, scores={key: primary, **scores})


def distinct_names(paths: Sequence[str], checkpoints: Sequence[str]) -> list[str]:
    """Returns a name for each run that no other has, as short as it can be.

    >>> distinct_names(["runs/a", "runs/b"], ["best (9)", "best (9)"])
    ['a', 'b']
    """
    folders = [path.rstrip("/").rpartition("/")[2] for path in paths]
    named = [f"{path} {name}" for path, name in zip(paths, checkpoints, strict=True)]
    numbered = [f"{name} #{number}" for number, name in enumerate(named, 1)]
    for names in (folders, list(paths), named):
        if len(set(names)) == len(names):
            return names
    return numbered
