"""Scores one can publish: BLEU, chrF, word error rate and perplexity.

Each with signature, count and a 95% interval, by sacrebleu's bootstrap over lines.
"""

import math
import os
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics import base as sacrebleu_base
from sacrebleu.significance import estimate_ci

from transformer.model.loss import perplexity

METRICS = {
    "bleu": "BLEU",
    "line_error_rate": "WER (whole words)",
}  # what `data.selection_metric` may be; its name
LOWER_IS_BETTER = {"line_error_rate"}
TOKENISATIONS = {"13a": "mteval-13a tokenisation", "intl": "international tokenisation"}


@dataclass
class Score:
    """One score of a corpus. `interval`: half the width of the 95% interval, None if not asked."""

    name: str
    value: float
    signature: str
    direction: str
    num_sentences: int
    interval: float | None = None
    unit: str = "sentences"  # of what there are so many
    DIGITS: ClassVar[int] = 2

    @property
    def figures(self):
        """The value and half its interval, as printed."""
        around = f" ± {self.interval:.{self.DIGITS}f}" if self.interval is not None else ""
        return f"{self.value:.{self.DIGITS}f}{around}"

    def __str__(self):
        return (
            f"{self.name} {self.figures}  ({self.direction}, {self.num_sentences:,} {self.unit})  "
            f"{self.signature}"
        )

    def to_json(self):
        """The fields as JSON has them: a value that is not finite is null."""
        return asdict(self) | ({} if math.isfinite(self.value) else {"value": None})


def scores_in(row):
    """The scores among the values of a dictionary, by name and in order."""
    return {name: value for name, value in row.items() if isinstance(value, Score)}


class Perplexity(Score):
    """A perplexity, of which the third decimal is worth printing."""

    DIGITS = 3


def bleu_metric(tokenize="13a", *, lowercase=False):
    """sacrebleu's BLEU. tokenize: "none" for text that is tokenised already."""
    return BLEU(tokenize=tokenize, force=tokenize == "none", lowercase=lowercase)


def bleu(translations, references, direction, *, tokenize="13a", num_bootstrap=1):
    """Corpus BLEU, cased."""
    metric = bleu_metric(tokenize)
    return _score("BLEU", metric, translations, references, direction, num_bootstrap)


def chrf(translations, references, direction, *, num_bootstrap=1):
    """Corpus chrF2."""
    return _score("chrF2", CHRF(), translations, references, direction, num_bootstrap)


class _LineSignature(sacrebleu_base.Signature):
    def __init__(self, args):
        super().__init__(args)
        self.info.update(case="mixed", unit="line", match="whole")


class LineErrorRate(sacrebleu_base.Metric):
    """The percentage of lines whose whole text is not the reference, as a metric of sacrebleu's.

    So intervals and paired tests are those of the other scores. Of no error at all the bootstrap
    finds an interval of 0: of 1,000 lines the true rate may still be 0.3% (the rule of three).
    """

    _SIGNATURE_TYPE = _LineSignature

    def _preprocess_segment(self, sent):
        return sent

    def _extract_reference_info(self, refs):
        return {"references": refs}

    def _compute_segment_statistics(self, hypothesis, ref_kwargs):
        return [int(hypothesis not in ref_kwargs["references"]), 1]

    def _aggregate_and_compute(self, stats):
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats):
        return sacrebleu_base.Score(
            METRICS["line_error_rate"], 100 * float(stats[0]) / float(stats[1])
        )


def make_metric(selection_metric, *, tokenize="13a"):
    """What `data.selection_metric` names, as a metric of sacrebleu's. tokenize: BLEU's."""
    return LineErrorRate() if selection_metric == "line_error_rate" else bleu_metric(tokenize)


def score_by(
    selection_metric, translations, references, direction, *, tokenize="13a", num_bootstrap=1
):
    """The score that `data.selection_metric` names. tokenize: BLEU's."""
    metric = make_metric(selection_metric, tokenize=tokenize)
    return _score(
        METRICS[selection_metric], metric, translations, references, direction, num_bootstrap
    )


def secondary_scores(translations, references, direction, *, tokenize="13a", num_bootstrap=1):
    """The scores that papers print besides `bleu` and `chrf`, each under its own name.

    Lower-cased and international BLEU is what t2t-bleu counts, which stands for the tokenised,
    compound-split BLEU of the Transformer's paper. What `bleu` is already is left out.
    """
    others = TOKENISATIONS if tokenize in (*TOKENISATIONS, "none") else {"char": "by characters"}
    others = {other: name for other, name in others.items() if other != tokenize}
    metrics = {"BLEU, lower-cased": bleu_metric(tokenize, lowercase=True)}
    metrics |= {f"BLEU, {name}": bleu_metric(other) for other, name in others.items()}
    if "intl" in others:
        name = f"BLEU, lower-cased, {others['intl']}"
        metrics[name] = bleu_metric("intl", lowercase=True)
    metrics["chrF2++"] = CHRF(word_order=2)
    return [
        _score(name, metric, translations, references, direction, num_bootstrap)
        for name, metric in metrics.items()
    ]


def _score(name, metric, translations, references, direction, num_bootstrap):
    check_paired(translations, references)
    try:
        result = metric.corpus_score(translations, [references], n_bootstrap=num_bootstrap)
    except TypeError:  # sacrebleu 2.6 cannot average a chrF of 0 with others: no interval then
        num_bootstrap = 1
        result = metric.corpus_score(translations, [references], n_bootstrap=1)
    return Score(
        name,
        result.score,
        metric.get_signature().format(short=False),
        direction,
        len(references),
        float(result._ci) if num_bootstrap > 1 else None,
    )


def check_paired(translations, references):
    """ValueError unless there is a reference for each translation; sacrebleu would not notice."""
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"Scoring needs as many translations as references, and at least one; there are "
            f"{len(translations)} and {len(references)}."
        )


def sentence_chrf(translations, references):
    """The chrF2 of each translation alone."""
    check_paired(translations, references)
    metric = CHRF()
    pairs = zip(translations, references, strict=True)
    return [metric.sentence_score(ours, [theirs]).score for ours, theirs in pairs]


def count_tokens(translations, references, *, tokenize="13a"):
    """(tokens of the translations, of the references), as the brevity penalty of BLEU has them."""
    check_paired(translations, references)
    result = bleu_metric(tokenize).corpus_score(translations, [references])
    return int(result.sys_len), int(result.ref_len)


def corpus_perplexity(log_probs, counts, direction, *, vocab_size, num_bootstrap=1):
    """Perplexity of references, of which each has a log-probability and a number of pieces.

    Every piece counts as one, the end of a sentence too; what has nan is left out, and not among
    the number of sentences. The interval is that of sacrebleu's bootstrap: the same seed, the same
    resamples.
    """
    nll, counts = -np.asarray(log_probs, float), np.asarray(counts, float)
    nll, counts = nll[~np.isnan(nll)], counts[~np.isnan(nll)]
    signature = f"unit:piece|eos:yes|vocab:{vocab_size}|smooth:no|dropout:no"
    interval = None
    if num_bootstrap > 1:
        seed = os.environ.get("SACREBLEU_SEED", "12345").lower()
        rng = np.random.default_rng(None if seed == "none" else int(seed))
        rows = rng.choice(len(nll), size=(num_bootstrap, len(nll)), replace=True)
        means = nll[rows].sum(1) / counts[rows].sum(1)
        interval = float(estimate_ci(np.exp(np.minimum(means, 700)))[1])
        signature = f"bs:{num_bootstrap}|seed:{seed}|{signature}"
    value = perplexity(nll.sum(), counts.sum())
    interval = interval if math.isfinite(value) else None
    return Perplexity("perplexity", value, signature, direction, len(nll), interval)


def accuracy(right, of_what):
    """The percentage of True in a list, with Wilson's 95% interval (half its width)."""
    number, z = len(right), 1.959964
    share = sum(right) / number
    interval = z * math.sqrt(share * (1 - share) / number + (z / (2 * number)) ** 2)
    interval *= 100 / (1 + z * z / number)
    return Score(
        "accuracy", 100 * share, "interval:wilson", of_what, number, interval, unit="examples"
    )


def mean_loss(nll, number, unit):
    """(nats a target, perplexity) of the negative log-likelihood of so many targets."""
    about = dict(signature="smooth:no|dropout:no", num_sentences=number, unit=f"{unit}s")
    direction = "natural logarithm"
    return (
        Perplexity(f"nats per {unit}", nll / number, direction=direction, **about),
        Perplexity("perplexity", perplexity(nll, number), direction=f"of a {unit}", **about),
    )
