"""Compares runs on the same test set: is one better than the first, and in what do they differ?"""

import dataclasses
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike
from sacrebleu.metrics import CHRF

import transformer
from transformer.checkpoint.restore import abstract_params, load_model, smallest_batch
from transformer.config import Config
from transformer.console import phase
from transformer.evaluation import html_report
from transformer.evaluation.metrics import metric_and_label, score_by
from transformer.evaluation.paired_tests import (
    EXPLANATION,
    NUM_TRIALS,
    PairedDifference,
    paired_differences,
)
from transformer.evaluation.results import origin, read_results, write_results
from transformer.evaluation.scores import NUM_BOOTSTRAP, Score, TaskScores, plain_table
from transformer.evaluation.segments import Segment, text_sides
from transformer.workdir import WorkDir

Table = list[dict[str, str]]  # rows of cells by their headers


@dataclass(kw_only=True, repr=False)
class ComparedRun(TaskScores):
    """A run and what it reached on a test set.

    path: of the work directory, as it was given. config: with the search that was used.
    num_parameters: of the model. vocabulary: a number that tells the target vocabulary from every
    other, by whose tokens a perplexity counts; 0: there is none. segments: empty for other tasks
    than translation. origin: as `results.origin` returns it.
    """

    path: str
    config: Config
    num_parameters: int
    vocabulary: int
    segments: Sequence[Segment]
    origin: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Returns what the report of a comparison holds of this run."""
        return {
            "path": self.path,
            "checkpoint": self.checkpoint,
            "step": self.step,
            "num_parameters": self.num_parameters,
            "origin": self.origin,
            **self.scores_to_json(),
        }


def compared_run(
    path: PathLike, record: dict[str, Any], segments: Sequence[Segment]
) -> ComparedRun:
    """Returns the run at `path`, with the scores in a record that `Evaluation.to_json` returned."""
    workdir = WorkDir(path)
    config = workdir.load_config()
    model, tokenizers, labels = load_model(workdir, config)
    shapes = jax.tree.leaves(abstract_params(model, smallest_batch(config, labels)))
    search = {f"decoding.{name}": value for name, value in record.get("search", {}).items()}
    known = search.keys() & config.values().keys()
    return ComparedRun(
        path=str(path),
        checkpoint=record["checkpoint"],
        step=record.get("step"),
        config=config.with_values({name: search[name] for name in known}),
        num_parameters=sum(math.prod(leaf.shape) for leaf in shapes),
        vocabulary=zlib.crc32(tokenizers[1].to_bytes()) if tokenizers else 0,
        corpus=record["corpus"],
        scores={  # in their order: the primary one is the first
            key: Score.from_json(value)
            for key, value in record.items()
            if isinstance(value, dict) and "signature" in value
        },
        segments=segments,
        origin=origin(workdir),
    )


def saved_run(path: PathLike) -> ComparedRun:
    """Returns a finished run of any task with the scores of its test split that training saved.

    Raises ValueError if the folder holds no such scores.
    """
    workdir = WorkDir(path)
    record, segments = read_results(workdir, workdir.load_config().data.test_split)
    return compared_run(path, record, [Segment(**fields) for fields in segments])


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
        scores = [side.scores.get("perplexity") for side in (self.first, run)]
        if None in scores or run.vocabulary != self.first.vocabulary:
            return False
        return len({score.num_sentences for score in scores if score}) == 1

    def differing_segments(
        self, system: int, count: int = 5
    ) -> dict[str, list[tuple[Segment, Segment]]]:
        """Returns {title: pairs} for the `count` largest differences of chrF in each direction.

        system: the position of the other run, from 1. Each pair is the same sentence as the first
        run and as the other translated it.
        """
        pairs = list(zip(self.first.segments, self.runs[system].segments, strict=True))
        pairs.sort(key=lambda pair: (pair[0].chrf - pair[1].chrf, pair[0].number))
        ahead = [(first, other) for first, other in pairs if other.chrf > first.chrf]
        behind = [(first, other) for first, other in pairs[::-1] if other.chrf < first.chrf]
        name = self.names[system]
        return {f"{name} is ahead": ahead[:count], f"{name} is behind": behind[:count]}

    def run_table(self) -> Table:
        """Returns the runs with their checkpoint, parameters, step and scores."""
        return [
            {
                "run": name,
                "checkpoint": run.checkpoint,
                "parameters": f"{run.num_parameters:,}",
                "step": "" if run.step is None else f"{run.step:,}",
                **{score.name: self.figures(run, key) for key, score in self.first.scores.items()},
            }
            for name, run in zip(self.names, self.runs, strict=True)
        ]

    def figures(self, run: ComparedRun, key: str) -> str:
        """Returns a score of a run with its interval; * marks one that cannot be compared."""
        if key not in run.scores:
            return "–"
        is_comparable = key != "perplexity" or self.has_comparable_perplexity(run)
        return run.scores[key].figures + "*" * (not is_comparable)

    def difference_table(self) -> Table:
        """Returns the paired tests of each run against the first."""
        is_corrected = len(self.runs) > 2
        return [
            {
                f"against {self.names[0]}": self.names[test.system],
                "score": test.metric,
                "difference": f"{test.difference:+.2f}",
                "p, bootstrap": f"{test.p_bootstrap:.4f}",
                "p, randomisation": f"{test.p_randomisation:.4f}",
                **({"p, Holm": f"{test.p_holm:.4f}"} if is_corrected else {}),
            }
            for test in self.differences
        ]

    def settings_table(self) -> Table:
        """Returns the settings that differ, with their value in each run."""
        return [
            {"settings that differ": flag}
            | {name: str(value) or "''" for name, value in zip(self.names, values, strict=True)}
            for flag, values in self.settings().items()
        ]

    def signatures(self) -> list[tuple[str, str]]:
        """Returns (score, signature) of each score, and then of each paired test."""
        scores = [(score.name, score.signature) for score in self.first.scores.values()]
        tests = [(test.metric, text) for test in self.differences for text in test.signatures]
        return list(dict.fromkeys(scores + tests))

    def notes(self) -> list[str]:
        """Returns what the p-values are, and what cannot be compared."""
        lines = [EXPLANATION] if self.differences else []
        if self.differences and len(self.runs) > 2:
            lines.append(
                f"p, Holm: that of randomisation, corrected for the {len(self.runs) - 1} "
                f"comparisons with the first run by one score."
            )
        return lines + self.perplexity_notes()

    def perplexity_notes(self) -> list[str]:
        """Returns what * means, if a perplexity has it."""
        has_perplexity = "perplexity" in self.first.scores
        if not has_perplexity or all(map(self.has_comparable_perplexity, self.runs)):
            return []
        return [
            "*: per token of another vocabulary than the first run's, or of other references, so "
            "not comparable with it."
        ]

    def lines(self) -> list[str]:
        """Returns what a person reads."""
        blocks = [plain_table(self.run_table(), "llr"), plain_table(self.difference_table(), "llr")]
        settings = plain_table(self.settings_table(), "lr")
        blocks.append(settings or ["The runs have the same settings."])
        lines = [line for block in blocks if block for line in [*block, ""]]
        return [*lines, *(f"{name}  {text}" for name, text in self.signatures()), *self.notes()]

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds of this comparison."""
        runs = [
            {"name": name, **run.to_json()}
            | {"has_comparable_perplexity": self.has_comparable_perplexity(run)}
            for name, run in zip(self.names, self.runs, strict=True)
        ]
        differences = [
            {"run": self.names[test.system], **dataclasses.asdict(test)}
            for test in self.differences
        ]
        return {
            "version": transformer.__version__,
            "corpus": self.first.corpus,
            "runs": runs,
            "differences": differences,
            "settings": self.settings(),
        }

    def save(self, workdir: WorkDir, name: str) -> epath.Path:
        """Writes results/NAME/ of a work directory; returns the path of its report.json."""
        with phase("writing the report"):
            files = {"report.html": html_report.render_comparison(self)}
        return write_results(workdir, name, self.to_json(), files)


def check_comparable(config: Config, other: Config, name: str) -> None:
    """Raises ValueError unless two runs can translate the same test set; name: of the other."""

    facts, other_facts = (
        {
            "task": side.task,
            "languages": "-".join(side.data.languages),
            "tokenizers": " and ".join(side.tokenizer.kinds),
        }
        for side in (config, other)
    )
    for fact, value in facts.items():
        if other_facts[fact] != value:
            raise ValueError(
                f"--compare needs runs that translate the same text: the first has {fact} {value}, "
                f"{name} {other_facts[fact]}."
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
    data = runs[0].config.data
    metric, label = metric_and_label(data.selection_metric, tokenize=data.bleu_tokenize)
    differences = paired_differences(
        [text_sides(run.segments)[0] for run in runs],
        references,
        {label: metric, "chrF2": CHRF()},
        num_bootstrap=num_bootstrap,
        num_trials=num_trials,
    )
    scored = [_scored_as(runs[0], run, num_bootstrap) for run in runs]
    return Comparison(names, scored, differences)


def without_tests(runs: Sequence[ComparedRun]) -> Comparison:
    """Returns runs beside each other with the scores that they have."""
    names = distinct_names([run.path for run in runs], [run.checkpoint for run in runs])
    return Comparison(names, list(runs), [])


def _scored_as(first: ComparedRun, run: ComparedRun, num_bootstrap: int) -> ComparedRun:
    """Returns a run with scores by the metric and the tokenisation of the first."""
    data, own = first.config.data, run.config.data
    key, chrf = data.selection_metric, run.scores["chrf"]
    scores = {key: run.scores.get(key, chrf), "chrf": chrf, "perplexity": run.scores["perplexity"]}
    if (own.selection_metric, own.bleu_tokenize) != (key, data.bleu_tokenize):
        scores[key] = score_by(
            key,
            *text_sides(run.segments),
            chrf.direction,
            tokenize=data.bleu_tokenize,
            num_bootstrap=num_bootstrap,
        )
    return dataclasses.replace(run, scores=scores)


def distinct_names(paths: Sequence[str], checkpoints: Sequence[str]) -> list[str]:
    """Returns a name for each run that no other has: its folder, if that is enough.

    >>> distinct_names(["runs/a", "runs/b"], ["best (9)", "best (9)"])
    ['a', 'b']
    """
    named = [f"{path} {name}" for path, name in zip(paths, checkpoints, strict=True)]
    for names in ([path.rstrip("/").rpartition("/")[2] for path in paths], list(paths), named):
        if len(set(names)) == len(names):
            return names
    return [f"{name} #{number}" for number, name in enumerate(named, 1)]
