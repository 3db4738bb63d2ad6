"""The scores of a test set: translate, compare, and say how sure the figures are."""

import json
from dataclasses import dataclass

from transformer import metrics
from transformer.workdir import write_atomically

NUM_BOOTSTRAP = 1000  # resamples behind a 95% interval


@dataclass
class Evaluation:
    """Scores of one test set, with the texts they are of."""

    checkpoint: str
    corpus: str
    bleu: metrics.Score
    chrf: metrics.Score
    perplexity: float
    sources: list[str]
    references: list[str]
    translations: list[str]

    def lines(self):
        """What a person reads: a line a score, each with its signature."""
        count = f"{self.bleu.direction}, {self.bleu.num_sentences:,} sentences"
        return [
            str(self.bleu),
            str(self.chrf),
            f"perplexity {self.perplexity:.3f} a piece  ({count}, without dropout or smoothing)",
        ]

    def sample_lines(self, count=3):
        """Some translations beside their references, spread over the test set."""
        step = max(1, len(self.sources) // count)
        rows = zip(self.sources, self.references, self.translations, strict=True)
        return [
            f"  source       {source}\n  reference    {reference}\n  translation  {translation}\n"
            for source, reference, translation in list(rows)[::step][:count]
        ]

    def save(self, workdir, name):
        """Writes the scores to results/NAME.json of a work directory; returns the path."""
        path = workdir / "results" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        record = {
            "checkpoint": self.checkpoint,
            "corpus": self.corpus,
            "bleu": self.bleu.to_json(),
            "chrf": self.chrf.to_json(),
            "perplexity": self.perplexity,
        }
        write_atomically(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        return path


def evaluate(translator, pairs, corpus, **options):
    """An `Evaluation` of pairs (source, reference); search `options` as `translate` takes them."""
    data = translator.config.data
    direction = f"{data.source_language}-{data.target_language}"
    sources, targets = (list(side) for side in zip(*pairs, strict=True))
    references = [translator.tokenizer.join(target) for target in targets]
    translations = [t.text for t in translator.translate(sources, **options)]
    scores = (
        metrics.bleu(
            translations, references, direction,
            tokenize=data.bleu_tokenize, num_bootstrap=NUM_BOOTSTRAP,
        ),
        metrics.chrf(translations, references, direction, num_bootstrap=NUM_BOOTSTRAP),
    )  # fmt: skip
    scored = translator.score(sources, targets)
    nll, num_pieces = -sum(s.log_prob for s in scored), sum(s.num_pieces for s in scored)
    perplexity = metrics.perplexity(nll, num_pieces)
    return Evaluation(
        translator.checkpoint, corpus, *scores, perplexity, sources, references, translations
    )
