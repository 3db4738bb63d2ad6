"""The task of translation: what a batch, a loss, a metric and a sample are."""

from collections import Counter

import jax

from transformer import corpus, metrics
from transformer.batching import PackedBatches, Ragged, usable
from transformer.training import make_eval_step, make_loss_fn
from transformer.translator import Translator
from transformer.vocabulary import train_tokenizers


class TranslationTask:
    """The data, model and measures of a run; `notes` counts what was left out, by reason.

    tokenizers: those of the run, (source, target); None: learnt from the training text.
    """

    def __init__(self, config, parallel, tokenizers=None):
        self.config, self.parallel = config, parallel
        self.notes = Counter()
        self.direction = f"{config.data.source_language}-{config.data.target_language}"
        pairs, weights = corpus.load_training_pairs(config.data, self.notes)
        self.num_pairs = len(pairs)
        self.tokenizers = tokenizers or train_tokenizers(config.tokenizer, pairs)
        self.rows_per_batch = parallel.rows_per_batch(
            config.training.batch_tokens, config.data.row_length, config.training.accumulate_steps
        )
        self.training_batches = self._batches(pairs, weights, self.notes)
        split = config.data.validation_split
        self.validation_pairs = corpus.load_evaluation_pairs(config.data, split)
        self.not_in_loss = Counter()  # validation pairs that the loss cannot count
        self.validation_batches = self._batches(self.validation_pairs, None, self.not_in_loss)
        self.translator = Translator(config, None, self.tokenizers)
        self.model = self.translator.model
        self.loss_fn = make_loss_fn(self.model, config.training.label_smoothing)
        self._eval_step = parallel.jit_eval_step(make_eval_step(self.loss_fn))

    def _batches(self, pairs, weights, notes):
        """Packs what fits; the rest is counted in `notes`."""
        data = self.config.data
        sides = [
            Ragged.encode(tokenizer, [pair[side] for pair in pairs])
            for side, tokenizer in enumerate(self.tokenizers)
        ]
        ratio = data.max_length_ratio if weights is not None else 0
        kept = usable(*sides, data.row_length, ratio, notes)
        if not len(kept):
            raise ValueError(
                f"No pair is left of {len(pairs)} ({dict(notes)}); raise data.row_length or "
                f"data.max_length_ratio."
            )
        return PackedBatches(
            *(side.take(kept) for side in sides),
            row_length=data.row_length,
            rows_per_batch=self.rows_per_batch,
            seed=self.config.training.seed,
            weights=None if weights is None or (weights == 1).all() else weights[kept],
        )

    def evaluate(self, params):
        """(metrics of the validation split, samples as (source, reference, translation))."""
        sums = Counter()
        batches = self.validation_batches
        for step in range(batches.batches_per_epoch):
            batch = self.parallel.put_batch(batches[step])
            sums.update(
                {k: float(v) for k, v in jax.device_get(self._eval_step(params, batch)).items()}
            )
        limit = self.config.data.max_validation_sentences or len(self.validation_pairs)
        sources = [source for source, _ in self.validation_pairs[:limit]]
        references = [
            self.tokenizers[1].join(target) for _, target in self.validation_pairs[:limit]
        ]
        self.translator.params = params
        translations = [t.text for t in self.translator.translate(sources)]
        bleu = metrics.bleu(
            translations, references, self.direction, tokenize=self.config.data.bleu_tokenize
        )
        measured = {
            "validation_loss": sums["loss"] / sums["tokens"],
            "validation_perplexity": metrics.perplexity(sums["nll"], sums["tokens"]),
            "validation_bleu": bleu.value,
        }
        return measured, list(zip(sources, references, translations, strict=True))
