"""Compares two runs on the same test set: is one better, and which sentences differ most?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from transformer.config import Config
from transformer.evaluation import metrics
from transformer.evaluation.evaluation import NUM_BOOTSTRAP, Evaluation
from transformer.evaluation.scores import Score
from transformer.evaluation.segments import Segment, text_sides

NUM_TRIALS = 10_000  # of the paired approximate randomisation; sacrebleu's default


@dataclass
class PairedScores:
    """A score of both runs, and how probable such a difference is between equally good ones.

    p_bootstrap, p_randomisation: by sacrebleu's two paired tests; signatures: of these tests.
    """

    ours: Score
    theirs: Score
    p_bootstrap: float
    p_randomisation: float
    signatures: tuple[str, str]

    @property
    def difference(self) -> float:
        """Our score minus theirs."""
        return self.ours.value - self.theirs.value

    def to_json(self) -> dict[str, Any]:
        """Returns the object of report.json."""
        return {
            "name": self.ours.name,
            "ours": self.ours.to_json(),
            "theirs": self.theirs.to_json(),
            "difference": self.difference,
            "p_bootstrap": self.p_bootstrap,
            "p_randomisation": self.p_randomisation,
            "signatures": list(self.signatures),
        }


class SegmentPair(NamedTuple):
    """The same sentence of the test set as both runs translated it."""

    ours: Segment
    theirs: Segment


@dataclass
class Comparison:
    """Two evaluations of the same test set; names: of our run and of the other, never equal."""

    names: tuple[str, str]
    ours: Evaluation
    theirs: Evaluation
    tests: list[PairedScores]

    @property
    def explanation(self) -> str:
        """What the p-values are, and what cannot be compared."""
        ours, theirs = (side.scores["perplexity"].figures for side in (self.ours, self.theirs))
        same = self.ours.settings.vocab_size == self.theirs.settings.vocab_size
        return (
            f"p: how often two equally good systems would differ by at least this much, by "
            f"sacrebleu's paired bootstrap (as papers print it) and by its paired approximate "
            f"randomisation (the more cautious one). Perplexity {ours} and {theirs}"
            f"{'' if same else ', of different vocabularies, so not to be compared'}."
        )

    def lines(self) -> list[str]:
        """Returns what a person reads."""
        checkpoints = self.ours.checkpoint, self.theirs.checkpoint
        full = [
            name if name == checkpoint else f"{name} ({checkpoint})"
            for name, checkpoint in zip(self.names, checkpoints, strict=True)
        ]
        rows = [f"{full[0]} against {full[1]}:"]
        for test in self.tests:
            rows.append(
                f"  {test.ours.name:<6} {test.ours.figures} to {test.theirs.figures}: "
                f"{test.difference:+.2f}, p {test.p_bootstrap:.4f} by bootstrap, "
                f"{test.p_randomisation:.4f} by randomisation"
            )
            rows += [f"         {signature}" for signature in test.signatures]
        return rows

    def differing_segments(self, count: int = 5) -> dict[str, list[SegmentPair]]:
        """Returns {title: pairs} for the `count` largest differences of chrF in each direction."""
        segments = zip(self.ours.segments, self.theirs.segments, strict=True)
        pairs = [SegmentPair(*pair) for pair in segments]
        pairs.sort(key=lambda pair: (pair.theirs.chrf - pair.ours.chrf, pair.ours.number))
        ahead = [pair for pair in pairs if pair.ours.chrf > pair.theirs.chrf][:count]
        behind = [pair for pair in pairs[::-1] if pair.ours.chrf < pair.theirs.chrf][:count]
        return {f"{self.names[0]} is ahead": ahead, f"{self.names[0]} is behind": behind}

    def to_json(self) -> dict[str, Any]:
        """Returns the object "comparison" of report.json."""
        return {
            "names": list(self.names),
            "checkpoints": [self.ours.checkpoint, self.theirs.checkpoint],
            "searches": [self.ours.settings.search, self.theirs.settings.search],
            "tests": [test.to_json() for test in self.tests],
            "perplexity": self.theirs.scores["perplexity"].to_json(),
            "differing": {
                title: [{"ours": a.to_json(), "theirs": b.to_json()} for a, b in pairs]
                for title, pairs in self.differing_segments().items()
            },
        }


def check_comparable(config: Config, other: Config, name: str) -> None:
    """Raises ValueError unless two runs can translate the same test set; name: of the other."""

    def text_kinds(config: Config) -> tuple[str, ...]:
        data, tokenizer = config.data, config.tokenizer
        return (
            f"{data.source_language}-{data.target_language}",
            f"tokenizer.kind={tokenizer.kind}",
            f"tokenizer.target_kind={tokenizer.kinds[1]}",
        )

    for ours, theirs in zip(text_kinds(config), text_kinds(other), strict=True):
        if ours != theirs:
            raise ValueError(
                f"--compare needs a run that translates the same text: this one has {ours}, {name} "
                f"{theirs}."
            )


def compare(
    paths: tuple[str, str],
    ours: Evaluation,
    theirs: Evaluation,
    *,
    num_bootstrap: int = NUM_BOOTSTRAP,
    num_trials: int = NUM_TRIALS,
) -> Comparison:
    """Compares two evaluations of the same test set by the primary metric of ours, and by chrF2.

    paths: the work directories of the runs. num_bootstrap, num_trials: number of samples of the
    paired bootstrap and of the randomisation. Raises ValueError if the references differ.
    """
    names = _distinct_names(paths, (ours.checkpoint, theirs.checkpoint))
    if [s.reference for s in ours.segments] != [s.reference for s in theirs.segments]:
        raise ValueError(
            f"{names[0]} and {names[1]} have different references for the same test set (their "
            f"tokenizers join words differently), so their scores cannot be compared."
        )
    metric, tokenize = ours.settings.selection_metric, ours.settings.tokenize
    (our_texts, references), their_texts = text_sides(ours.segments), text_sides(theirs.segments)[0]
    score = metrics.score_by(  # the other run may have another metric, or another tokenisation
        metric,
        their_texts,
        references,
        ours.settings.direction,
        tokenize=tokenize,
        num_bootstrap=num_bootstrap,
    )
    chrf = ours.scores["chrf"], theirs.scores["chrf"]
    pairs = {score.name: (ours.primary, score), "chrF2": chrf}
    scorers = {score.name: metrics.make_metric(metric, tokenize=tokenize), "chrF2": CHRF()}
    # Between equally good systems sacrebleu 2.6's bootstrap finds p < 0.05 in 10% of all cases
    # (39 of 400 that we made), its randomisation in 3% (12): so both are reported.
    results = [
        PairedTest(
            [("ours", our_texts), ("theirs", their_texts)],
            scorers,
            [references],
            test_type=test_type,
            n_samples=num_samples,
        )()
        for test_type, num_samples in (("bs", num_bootstrap), ("ar", num_trials))
    ]
    tests = [_paired_scores(name, pair, results) for name, pair in pairs.items()]
    return Comparison(names, ours, theirs, tests)


def _paired_scores(
    name: str, pair: tuple[Score, Score], results: Sequence[tuple[dict, dict]]
) -> PairedScores:
    """Returns a pair of scores with its p-values; results: of both kinds of sacrebleu's test."""
    found = [scores[name] for _, scores in results]
    # Of equal scores sacrebleu would say p = 0.001: no resample differs by more than nothing.
    p_bootstrap, p_randomisation = (
        1.0 if ours.score == theirs.score else theirs.p_value for ours, theirs in found
    )
    bootstrap, randomisation = (signatures[name].format() for signatures, _ in results)
    return PairedScores(*pair, p_bootstrap, p_randomisation, (bootstrap, randomisation))


def _distinct_names(paths: tuple[str, str], checkpoints: tuple[str, str]) -> tuple[str, str]:
    """Returns a name for each run that the other does not have."""
    if paths[0] != paths[1]:
        return paths
    if checkpoints[0] != checkpoints[1]:
        return checkpoints
    return paths[0], f"{paths[1]} again"
