"""Scores one can publish: BLEU and chrF by sacrebleu, each with signature, count and interval."""

import math
from dataclasses import asdict, dataclass

from sacrebleu.metrics import BLEU, CHRF


@dataclass
class Score:
    """One score of a corpus. `interval`: half the width of the 95% interval, None if not asked."""

    name: str
    value: float
    signature: str
    direction: str
    num_sentences: int
    interval: float | None = None

    def __str__(self):
        around = f" ± {self.interval:.2f}" if self.interval is not None else ""
        return (
            f"{self.name} {self.value:.2f}{around}  ({self.direction}, {self.num_sentences:,} "
            f"sentences)  {self.signature}"
        )

    def to_json(self):
        return asdict(self)


def bleu(translations, references, direction, *, tokenize="13a", num_bootstrap=1):
    """Corpus BLEU. tokenize: sacrebleu's; "none" for text that is tokenised already."""
    metric = BLEU(tokenize=tokenize, force=tokenize == "none")
    return _score("BLEU", metric, translations, references, direction, num_bootstrap)


def chrf(translations, references, direction, *, num_bootstrap=1):
    """Corpus chrF2."""
    return _score("chrF2", CHRF(), translations, references, direction, num_bootstrap)


def _score(name, metric, translations, references, direction, num_bootstrap):
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"Scoring needs as many translations as references, and at least one; there are "
            f"{len(translations)} and {len(references)}."
        )
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


def perplexity(nll, num_tokens):
    """exp of the mean negative log-likelihood of a piece; inf if it is beyond a float."""
    mean = nll / max(num_tokens, 1)
    return math.exp(mean) if mean < 700 else math.inf
