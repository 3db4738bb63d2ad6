"""Paired significance tests of systems that translated the same test set, by sacrebleu."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from transformer.evaluation.metrics import Reference, reference_streams

NUM_TRIALS = 10_000  # of the paired approximate randomisation; sacrebleu's default
EXPLANATION = (
    "p: how often two equally good systems would differ by at least this much, by sacrebleu's "
    "paired bootstrap (as papers print it) and by its paired approximate randomisation (the more "
    "cautious one)."
)


@dataclass(frozen=True)
class PairedDifference:
    """How much a system differs from the first by one metric, and how probable that is by chance.

    metric: the name of the score. system: the position of the system, from 1; the first is 0.
    difference: its score minus that of the first. p_bootstrap, p_randomisation: by sacrebleu's two
    paired tests. p_holm: p_randomisation, corrected by Holm's method for the number of systems.
    signatures: of the two tests.
    """

    metric: str
    system: int
    difference: float
    p_bootstrap: float
    p_randomisation: float
    p_holm: float
    signatures: tuple[str, str]


def paired_differences(
    systems: Sequence[Sequence[str]],
    references: Sequence[Reference],
    metrics: Mapping[str, Metric],
    *,
    num_bootstrap: int,
    num_trials: int = NUM_TRIALS,
) -> list[PairedDifference]:
    """Tests each system against the first by each metric; returns them system by system.

    systems: the translations of each, at least two. metrics: by the names of their scores.
    num_bootstrap, num_trials: number of samples of the bootstrap and of the randomisation.
    """
    # Between equally good systems sacrebleu 2.6's bootstrap finds p < 0.05 in 10% of all cases
    # (39 of 400 that we made), its randomisation in 3% (12): so both are reported.
    named = [(str(number), texts) for number, texts in enumerate(systems)]
    streams = reference_streams(references)
    (names, bootstrap), (random_names, randomisation) = (
        PairedTest(named, metrics, streams, test_type=test_type, n_samples=num_samples)()
        for test_type, num_samples in (("bs", num_bootstrap), ("ar", num_trials))
    )
    differences = []
    for name, key in zip(metrics, names, strict=True):  # sacrebleu has names of its own
        results: Sequence[Any] = bootstrap[key]
        p_randomisation = _p_values(randomisation[key])
        p_values = zip(_p_values(results), p_randomisation, holm(p_randomisation), strict=True)
        signatures = names[key].format(), random_names[key].format()
        differences += [
            PairedDifference(name, system, result.score - results[0].score, *ps, signatures)
            for system, (result, ps) in enumerate(zip(results[1:], p_values, strict=True), start=1)
        ]
    return sorted(differences, key=lambda difference: difference.system)


def _p_values(results: Sequence[Any]) -> list[float]:
    """Returns the p-value of each system but the first; results: sacrebleu's by one metric."""
    # Of equal scores sacrebleu would say p = 0.001: no resample differs by more than nothing.
    first = results[0].score
    return [1.0 if result.score == first else result.p_value for result in results[1:]]


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values corrected for their number by the method of Holm (1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    raised = [p_values[index] * (len(order) - rank) for rank, index in enumerate(order)]
    corrected = dict(zip(order, accumulate(raised, max), strict=True))
    return [min(1.0, corrected[index]) for index in range(len(order))]
