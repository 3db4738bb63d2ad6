"""Compares runs on the same test set: is one better than the first, and in what do they differ?"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike
from sacrebleu.metrics import CHRF
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

import transformer
from transformer.checkpoint.restore import abstract_params, load_model, smallest_batch
from transformer.config import Config
from transformer.console import phase
from transformer.data.files.text import folder_name
from transformer.evaluation import html_report
from transformer.evaluation.html_report import origin
from transformer.evaluation.metrics import (
    Reference,
    metric_and_label,
    reference_streams,
    score_by,
)
from transformer.evaluation.scores import (
    NUM_BOOTSTRAP,
    Score,
    Table,
    TaskScores,
    plain_table,
    write_results,
)
from transformer.evaluation.translation import Segment, text_sides
from transformer.workdir import WorkDir

NUM_TRIALS = 10_000  # of the paired approximate randomisation; sacrebleu's default
P_NOTE = (
    "p: how often two equally good systems would differ by at least this much, by sacrebleu's "
    "paired bootstrap (as papers print it) and by its paired approximate randomisation (the more "
    "cautious one)."
)
PERPLEXITY_NOTE = (
    "*: per token of another vocabulary than the first run's, or of other references, so "
    "not comparable with it."
)


@dataclass(kw_only=True, repr=False)
class ComparedRun(TaskScores):
    """A run and what it reached on a test set.

    path: as it was given. config: with the search that was used. vocabulary: a checksum of the
    target vocabulary, by whose tokens a perplexity counts; 0: there is none. segments: empty for
    other tasks than translation. origin: as `html_report.origin` returns it.
    """

    path: str
    config: Config
    num_parameters: int
    vocabulary: int
    segments: Sequence[Segment]
    origin: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        names = ("path", "checkpoint", "step", "num_parameters", "origin")
        return {name: getattr(self, name) for name in names} | self.scores_to_json()


def compared_run(
    workdir: WorkDir, record: dict[str, Any], segments: Sequence[Segment]
) -> ComparedRun:
    """Returns a run with the scores in a record that `TaskScores.to_json` returned."""
    config = workdir.load_config()
    model, tokenizers, labels = load_model(workdir, config)
    params = abstract_params(model, smallest_batch(config, labels))
    search = {f"decoding.{name}": value for name, value in record.get("search", {}).items()}
    known = search.keys() & config.values().keys()
    return ComparedRun(
        path=str(workdir.path),
        checkpoint=record["checkpoint"],
        step=record.get("step"),
        config=config.with_values({name: search[name] for name in known}),
        num_parameters=sum(leaf.size for leaf in jax.tree.leaves(params)),
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
    """Returns a finished run of any task with the scores of its test split; raises ValueError."""
    workdir = WorkDir(path)
    folder = workdir / "results" / folder_name(workdir.load_config().data.test_split)
    file = folder / "segments.jsonl"
    try:
        record = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        lines = file.read_text(encoding="utf-8").split("\n") if file.exists() else []
        segments = [Segment(**json.loads(line)) for line in lines if line]
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{folder} holds no scores that can be read ({error}): score the run with eval.py "
            f"--workdir={workdir.path}."
        ) from None
    return compared_run(workdir, record, segments)


@dataclass(frozen=True)
class PairedDifference:
    """How much a system differs from the first by one metric, and how probable that is by chance.

    run: its name. metric: that of the score. system: its position, from 1; the first is 0.
    difference: its score minus that of the first. p_holm: p_randomisation, corrected for the number
    of systems. signatures: of sacrebleu's two paired tests.
    """

    run: str
    metric: str
    system: int
    difference: float
    p_bootstrap: float
    p_randomisation: float
    p_holm: float
    signatures: tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """Runs with their scores on one test set, beside each other.

    differences: of each run from the first; empty if they were not tested.
    """

    runs: Sequence[ComparedRun]
    differences: list[PairedDifference] = field(default_factory=list)

    @property
    def first(self) -> ComparedRun:
        return self.runs[0]

    @cached_property
    def names(self) -> list[str]:
        """The names of the runs, no two alike: their folders, if these are enough."""
        paths = [run.path for run in self.runs]
        folders = [path.rstrip("/").rpartition("/")[2] for path in paths]
        named = [f"{run.path} {run.checkpoint}" for run in self.runs]
        numbered = [f"{name} #{number}" for number, name in enumerate(named, 1)]
        choices = (folders, paths, named, numbered)
        return next(names for names in choices if len({*names}) == len(names))

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
        first, other = (side.scores.get("perplexity") for side in (self.first, run))
        if first is None or other is None or run.vocabulary != self.first.vocabulary:
            return False
        return first.num_sentences == other.num_sentences

    def differing_segments(self, system: int, count: int) -> dict[str, list[Any]]:
        """Returns {title: pairs} for the `count` largest differences of chrF in each direction.

        system: the position of the other run, from 1; a pair is (the first run's, the other's).
        """
        pairs = list(zip(self.first.segments, self.runs[system].segments, strict=True))
        pairs.sort(key=lambda pair: (pair[0].chrf - pair[1].chrf, pair[0].number))
        ahead = [(first, other) for first, other in pairs if other.chrf > first.chrf]
        behind = [(first, other) for first, other in pairs[::-1] if other.chrf < first.chrf]
        name = self.names[system]
        return {f"{name} is ahead": ahead[:count], f"{name} is behind": behind[:count]}

    def figures(self, run: ComparedRun, key: str) -> str:
        """Returns a score of a run with its interval; * marks one that cannot be compared."""
        if key not in run.scores:
            return "–"
        is_comparable = key != "perplexity" or self.has_comparable_perplexity(run)
        return run.scores[key].figures + "*" * (not is_comparable)

    def tables(self) -> tuple[Table, Table, Table]:
        """Returns the runs with their scores, the paired tests, and the settings that differ."""
        runs = [
            {
                "run": name,
                "checkpoint": run.checkpoint,
                "parameters": f"{run.num_parameters:,}",
                "step": "" if run.step is None else f"{run.step:,}",
                **{head: self.figures(run, key) for key, head in self.first.names.items()},
            }
            for name, run in zip(self.names, self.runs, strict=True)
        ]
        differences = [
            {
                f"against {self.names[0]}": test.run,
                "score": test.metric,
                "difference": f"{test.difference:+.2f}",
                "p, bootstrap": f"{test.p_bootstrap:.4f}",
                "p, randomisation": f"{test.p_randomisation:.4f}",
                **({"p, Holm": f"{test.p_holm:.4f}"} if len(self.runs) > 2 else {}),
            }
            for test in self.differences
        ]
        settings = [
            {"settings that differ": flag}
            | {name: str(value) or "''" for name, value in zip(self.names, values, strict=True)}
            for flag, values in self.settings().items()
        ]
        return runs, differences, settings

    def signatures(self) -> list[tuple[str, str]]:
        """Returns (score, signature) of each score, and then of each paired test."""
        first = self.first
        scores = [(name, first.scores[key].signature) for key, name in first.names.items()]
        tests = [(test.metric, text) for test in self.differences for text in test.signatures]
        return list(dict.fromkeys(scores + tests))

    def notes(self) -> list[str]:
        lines = [P_NOTE] if self.differences else []
        if self.differences and len(self.runs) > 2:
            lines.append(
                f"p, Holm: that of randomisation, corrected for the {len(self.runs) - 1} "
                f"comparisons with the first run by one score."
            )
        return lines + perplexity_notes(self.tables()[0])

    def lines(self) -> list[str]:
        runs, differences, settings = self.tables()
        blocks = [plain_table(runs, "llr"), plain_table(differences, "llr")]
        blocks.append(plain_table(settings, "lr") or ["The runs have the same settings."])
        lines = [line for block in blocks if block for line in [*block, ""]]
        return [*lines, *(f"{name}  {text}" for name, text in self.signatures()), *self.notes()]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": transformer.__version__,
            "corpus": self.first.corpus,
            "runs": [
                {"name": name, **run.to_json()}
                | {"has_comparable_perplexity": self.has_comparable_perplexity(run)}
                for name, run in zip(self.names, self.runs, strict=True)
            ],
            "differences": list(map(vars, self.differences)),
            "settings": self.settings(),
        }

    def save(self, workdir: WorkDir, name: str) -> epath.Path:
        with phase("writing the report"):
            files = {"report.html": html_report.render_comparison(self)}
        return write_results(workdir, name, self.to_json(), files)


def perplexity_notes(table: Table) -> list[str]:
    """Returns what * means, if a table has it."""
    is_marked = any(cell.endswith("*") for row in table for cell in row.values())
    return [PERPLEXITY_NOTE] if is_marked else []


def check_comparable(config: Config, other: Config, name: str) -> None:
    """Raises ValueError unless two runs can translate the same test set; name: of the other."""
    for fact, value, other_value in (
        ("task", config.task, other.task),
        ("languages", *("-".join(side.data.languages) for side in (config, other))),
        ("tokenizers", *(" and ".join(side.tokenizer.kinds) for side in (config, other))),
    ):
        if value != other_value:
            raise ValueError(
                f"--compare needs runs that translate the same text: the first has {fact} {value}, "
                f"{name} {other_value}."
            )


def compare_runs(runs: Sequence[ComparedRun]) -> Comparison:
    """Compares each run with the first by the primary metric of the first, and by chrF2.

    Runs of other tasks than translation are not tested. Raises ValueError if the runs were scored
    on different references.
    """
    untested = Comparison(runs)
    if not all(run.segments for run in runs):
        return untested
    systems, references = {}, []
    for name, run in zip(untested.names, runs, strict=True):
        systems[name], given = text_sides(run.segments)
        references = references or given
        if given != references:
            raise ValueError(
                f"{untested.names[0]} and {name} have different references for the same test set "
                f"(another test set, or tokenizers that join words differently), so their scores "
                f"cannot be compared."
            )
    data = runs[0].config.data
    key, tokenize = data.selection_metric, data.bleu_tokenize
    metric, label = metric_and_label(key, tokenize=tokenize)
    scored = []
    for run, texts in zip(runs, systems.values(), strict=True):
        scores, own = run.scores, run.config.data
        if (own.selection_metric, own.bleu_tokenize) != (key, tokenize):
            sides = texts, references, run.primary.direction
            score = score_by(key, *sides, tokenize=tokenize, num_bootstrap=NUM_BOOTSTRAP)
            scores = scores | {key: score}
        scores = {name: scores[name] for name in (key, "chrf", "perplexity")}
        scored.append(replace(run, scores=scores))
    return Comparison(
        scored, paired_differences(systems, references, {label: metric, "chrF2": CHRF()})
    )


def paired_differences(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Reference],
    metrics: Mapping[str, Metric],
) -> list[PairedDifference]:
    """Tests each system against the first by each metric; returns them system by system.

    systems: the translations of each, at least two. metrics: by the names of their scores.
    """
    # Between equally good systems sacrebleu 2.6's bootstrap finds p < 0.05 in 10% of all cases
    # (39 of 400 that we made), its randomisation in 3% (12): so both are reported.
    named, streams = list(systems.items()), reference_streams(references)
    (names, bootstrap), (random_names, randomisation) = (
        PairedTest(named, metrics, streams, test_type=test_type, n_samples=num_samples)()
        for test_type, num_samples in (("bs", NUM_BOOTSTRAP), ("ar", NUM_TRIALS))
    )
    differences = []
    for name, key in zip(metrics, names, strict=True):  # sacrebleu has names of its own
        both: list[list[Any]] = [list(results[key]) for results in (bootstrap, randomisation)]
        scores = [result.score for result in both[0]]
        by_bootstrap, by_randomisation = (
            # Of equal scores sacrebleu would say p = 0.001: no resample differs by more than 0.
            [1.0 if r.score == scores[0] else r.p_value for r in results[1:]]
            for results in both
        )
        p_values = zip(by_bootstrap, by_randomisation, holm(by_randomisation), strict=True)
        signatures = names[key].format(), random_names[key].format()
        for system, ps in enumerate(p_values, start=1):
            facts = named[system][0], name, system, scores[system] - scores[0]
            differences.append(PairedDifference(*facts, *ps, signatures))
    return sorted(differences, key=lambda difference: difference.system)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected for their number by the method of Holm (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    raised = [p_values[index] * (len(order) - rank) for rank, index in enumerate(order)]
    corrected = dict(zip(order, accumulate(raised, max), strict=True))
    return [min(1.0, corrected[index]) for index in range(len(order))]
