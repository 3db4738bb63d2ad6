"""The scores of a test set: translate, compare, and say how sure the figures are."""

import json
from dataclasses import dataclass

from transformer import metrics
from transformer.hosts import share
from transformer.storage import write_atomically

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
        path.parent.mkdir(parents=True, exist_ok=True)
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
    translations = share(
        lambda part: [t.text for t in translator.translate(part, **options)], sources
    )
    scores = (
        metrics.bleu(
            translations, references, direction,
            tokenize=data.bleu_tokenize, num_bootstrap=NUM_BOOTSTRAP,
        ),
        metrics.chrf(translations, references, direction, num_bootstrap=NUM_BOOTSTRAP),
    )  # fmt: skip
    scored = share(lambda part: _scores(translator, part), list(zip(sources, targets, strict=True)))
    perplexity = metrics.perplexity(-sum(s[0] for s in scored), sum(s[1] for s in scored))
    return Evaluation(
        translator.checkpoint, corpus, *scores, perplexity, sources, references, translations
    )


def _scores(translator, pairs):
    """(log-probability, number of pieces) of each target given its source."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return [(s.log_prob, s.num_pieces) for s in translator.score(sources, targets)]
