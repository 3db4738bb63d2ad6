"""Metrics of translations, as papers publish them: BLEU, chrF and the rate of wrong lines.

Every function here takes `translations` and `references`, lists of lines in the same order, and
some of the arguments below. A line may have several references, as a tuple: sacrebleu's metrics
then count what matches any of them (BLEU) or the best one (chrF, TER).

direction: the languages, "en-de"; kept with the score.
tokenize: sacrebleu's name for how BLEU splits words: "13a" (mteval), "intl", "zh", "char" …;
    "none" for text that is tokenised already.
num_bootstrap: number of resamples of lines behind the 95% interval; 1: no interval.

Those that compare the lists raise ValueError unless they are of the same length and not empty.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacrebleuScore

from transformer.evaluation.scores import FEWEST_FOR_INTERVAL, Score
from transformer.registry import METRICS, MetricEntry

Reference = str | list[str] | tuple[str, ...]  # the reference of a line, or several

TOKENISATIONS = {"13a": "mteval-13a tokenisation", "intl": "international tokenisation"}


def bleu_metric(tokenize: str = "13a", *, lowercase: bool = False) -> BLEU:
    """Returns sacrebleu's BLEU; text that is tokenised already causes no warning."""
    return BLEU(tokenize=tokenize, force=tokenize == "none", lowercase=lowercase)


def chrf(
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    *,
    num_bootstrap: int = 1,
) -> Score:
    """Returns the chrF2 of a corpus, in percent."""
    return score_with("chrF2", CHRF(), translations, references, direction, num_bootstrap)


class _LineSignature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info.update(args["facts"])


class MeanOverLines(Metric):
    """The mean over lines of a function of (translation, reference), as sacrebleu's metric.

    A subclass of sacrebleu's `Metric` fills in these abstract methods, underscored as they are; in
    return it has the same intervals and paired tests as BLEU.
    """

    _SIGNATURE_TYPE = _LineSignature

    def __init__(
        self,
        function: Callable[[str, str], float],
        label: str,
        facts: Mapping[str, str],
        best: Callable[[list[float]], float] = max,
    ) -> None:
        """facts: what the signature says, as {"unit": "line"}. best: of several references."""
        super().__init__()
        self.function, self.label, self.facts, self.best = function, label, facts, best

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict) -> list[Any]:
        return [self.best([self.function(hypothesis, r) for r in ref_kwargs["references"]]), 1]

    def _aggregate_and_compute(self, stats: list[list[int]]) -> SacrebleuScore:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Sequence[float] | np.ndarray) -> SacrebleuScore:
        total, num_lines = map(float, stats)
        return SacrebleuScore(self.label, total / num_lines)


def line_error_rate(translation: str, reference: str) -> float:
    """Returns 100 for a line that is not wholly right, else 0: the mean is SIGMORPHON's WER.

    Where no line is wrong the bootstrap finds an interval of 0: of 1,000 lines the true rate may
    still be 0.3% (the rule of three).
    """
    return 100.0 * (translation != reference)


BLEU_ENTRY = MetricEntry(BLEU, "BLEU")
TER_ENTRY = MetricEntry(TER, "TER", higher_is_better=False)
LINE_ERROR_RATE_ENTRY = MetricEntry(line_error_rate, "WER (whole words)", higher_is_better=False)


def make_metric(selection_metric: str, *, tokenize: str = "13a") -> Metric:
    """Returns sacrebleu's metric for what `data.selection_metric` names."""
    entry = METRICS[selection_metric]
    metric, label = entry.metric, entry.label
    if metric is BLEU:
        return bleu_metric(tokenize)
    if isinstance(metric, type):
        return metric()
    facts = {"case": "mixed", "unit": "line", "match": "whole"}
    if metric is not line_error_rate:
        facts = {"unit": "line", "function": metric.__name__}
    return MeanOverLines(metric, label, facts, max if entry.higher_is_better else min)


def score_by(
    selection_metric: str,
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    *,
    tokenize: str = "13a",
    num_bootstrap: int = 1,
) -> Score:
    """Returns the score by the metric that `data.selection_metric` names."""
    metric, name = make_metric(selection_metric, tokenize=tokenize), METRICS[selection_metric].label
    return score_with(name, metric, translations, references, direction, num_bootstrap)


bleu = partial(score_by, "bleu")  # the cased BLEU of a corpus, in percent


def secondary_scores(
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    *,
    tokenize: str = "13a",
    num_bootstrap: int = 1,
) -> list[Score]:
    """Returns the scores that papers print besides `bleu` and `chrf`, each under its own name.

    Lower-cased international BLEU is what t2t-bleu counts; it stands for the tokenised,
    compound-split BLEU of the Transformer's paper. What `bleu` is already is left out.
    """
    others = TOKENISATIONS if tokenize in (*TOKENISATIONS, "none") else {"char": "by characters"}
    others = {other: name for other, name in others.items() if other != tokenize}
    metrics: dict[str, Metric] = {"BLEU, lower-cased": bleu_metric(tokenize, lowercase=True)}
    metrics |= {f"BLEU, {name}": bleu_metric(other) for other, name in others.items()}
    if "intl" in others:
        name = f"BLEU, lower-cased, {others['intl']}"
        metrics[name] = bleu_metric("intl", lowercase=True)
    metrics["chrF2++"] = CHRF(word_order=2)
    return [
        score_with(name, metric, translations, references, direction, num_bootstrap)
        for name, metric in metrics.items()
    ]


def score_with(
    name: str,
    metric: Metric,
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    num_bootstrap: int,
) -> Score:
    """Returns the score by one of sacrebleu's metrics, under a name of ours.

    It has no interval of fewer than `FEWEST_FOR_INTERVAL` sentences, or if num_bootstrap is 1.
    """
    check_paired(translations, references)
    num_bootstrap = num_bootstrap if len(references) >= FEWEST_FOR_INTERVAL else 1
    streams = reference_streams(references)
    try:
        result = metric.corpus_score(translations, streams, n_bootstrap=num_bootstrap)
    except TypeError:  # sacrebleu 2.6 cannot average a chrF of 0 with others: no interval then
        num_bootstrap = 1
        result = metric.corpus_score(translations, streams, n_bootstrap=1)
    return Score(
        name=name,
        value=result.score,
        signature=metric.get_signature().format(short=False),
        direction=direction,
        num_sentences=len(references),
        # Private, because sacrebleu's public `format` rounds it and omits it at a mean of 0.
        interval=float(result._ci) if num_bootstrap > 1 else None,
    )


def all_references(reference: Reference) -> tuple[str, ...]:
    """Returns all references of a line."""
    return tuple(reference) if isinstance(reference, list | tuple) else (reference,)


def reference_streams(references: Sequence[Reference]) -> list[list[Any]]:
    """Returns the first reference of each line, the second …, None where a line has fewer.

    >>> reference_streams(["a", ("b", "c")])
    [['a', 'b'], [None, 'c']]
    """
    return [list(stream) for stream in zip_longest(*map(all_references, references))]


def check_paired(translations: Sequence[str], references: Sequence[Reference]) -> None:
    """Raises ValueError unless each translation has a reference; sacrebleu would not notice."""
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"Scoring needs as many translations as references, and at least one; there are "
            f"{len(translations)} and {len(references)}."
        )


def sentence_chrf(translations: Sequence[str], references: Sequence[Reference]) -> list[float]:
    """Returns the chrF2 of each translation alone, in percent."""
    check_paired(translations, references)
    metric = CHRF()
    pairs = zip(translations, references, strict=True)
    return [metric.sentence_score(ours, all_references(theirs)).score for ours, theirs in pairs]


def count_tokens(
    translations: Sequence[str], references: Sequence[Reference], *, tokenize: str = "13a"
) -> tuple[int, int]:
    """Returns the numbers of tokens of both sides, as the brevity penalty of BLEU counts them."""
    check_paired(translations, references)
    result = bleu_metric(tokenize).corpus_score(translations, reference_streams(references))
    return int(result.sys_len), int(result.ref_len)
