"""The task of translation: what a batch, a loss, a metric and a sample are."""

import zlib
from collections import Counter
from functools import cached_property, partial

import jax
import numpy as np

from transformer import corpus, metrics
from transformer.batching import PackedBatches, rows_of_batch, usable
from transformer.costs import training_flops
from transformer.hosts import share
from transformer.ragged import Ragged
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
        self.tokenizers = tokenizers or train_tokenizers(config.tokenizer, pairs)
        settings = config.training
        rows = rows_of_batch(settings.batch_tokens, config.data.row_length)
        ratio = config.data.max_length_ratio
        self.training_batches = self._pack(pairs, weights, rows, ratio, self.notes)
        split = config.data.validation_split
        self.validation_pairs = corpus.load_evaluation_pairs(config.data, split)
        self.not_in_loss = Counter()  # validation pairs that are too long for a row
        self.validation_batches = self._pack(  # no larger than what a training step holds at once
            self.validation_pairs, None, -(-rows // settings.accumulate_steps), 0, self.not_in_loss
        )
        self.translator = Translator(config, None, self.tokenizers)
        self.model = self.translator.model.clone(remat=config.remat, scan_layers=config.scan_layers)
        self.loss_fn = make_loss_fn(self.model, settings.label_smoothing)
        self._eval_step = parallel.map_step(partial(make_eval_step, self.loss_fn))

    def fingerprint(self):
        """Bytes that are alike on every host that reads the same text in the same way."""
        packed = self.training_batches, self.validation_batches
        ragged = [side for batches in packed for side in (batches.source, batches.target)]
        arrays = [x for side in ragged for x in (side.flat, side.starts, side.lengths)]
        sums = [zlib.crc32(np.ascontiguousarray(array)) for array in arrays]
        return repr((sums, self.validation_pairs)).encode()

    @property
    def num_padding_rows(self):
        """Empty rows of a training batch, as the devices need them."""
        rows = self.training_batches.rows_per_batch
        return self.parallel.num_rows(rows, self.config.training.accumulate_steps) - rows

    @cached_property
    def work_per_step(self):
        """(FLOPs, target tokens) of a training step, in the mean of an epoch."""
        batches = self.training_batches
        lengths = [side.lengths[batches.first_epoch] for side in (batches.source, batches.target)]
        vocab_size = self.tokenizers[1].vocab_size
        flops = training_flops(self.config.model, vocab_size, *lengths)
        steps = batches.batches_per_epoch
        return flops / steps, lengths[1].sum() / steps

    def _pack(self, pairs, weights, rows_per_batch, max_length_ratio, notes):
        """Batches of what fits; the rest is counted in `notes`."""
        row_length = self.config.data.row_length
        sides = [
            Ragged.encode(tokenizer, [pair[side] for pair in pairs])
            for side, tokenizer in enumerate(self.tokenizers)
        ]
        kept = usable(*sides, row_length, max_length_ratio, notes)
        if not len(kept):
            raise ValueError(
                f"No pair is left of {len(pairs)} ({dict(notes)}); raise data.row_length or "
                f"data.max_length_ratio."
            )
        return PackedBatches(
            *(side.take(kept) for side in sides),
            row_length=row_length,
            rows_per_batch=rows_per_batch,
            seed=self.config.training.seed,
            weights=None if weights is None or (weights == 1).all() else weights[kept],
        )

    def evaluate(self, params):
        """(metrics of the validation split, samples as (source, reference, translation))."""
        limit = self.config.data.max_validation_sentences or len(self.validation_pairs)
        sources, targets = zip(*self.validation_pairs[:limit], strict=True)
        references = [self.tokenizers[1].join(target) for target in targets]
        self.translator.params = self.parallel.on_one_device(params)
        try:
            translations = share(self._translate, sources)
        finally:
            self.translator.params = None  # a whole copy, where training may have room for a part
        bleu = metrics.bleu(
            translations, references, self.direction, tokenize=self.config.data.bleu_tokenize
        )
        measured = {**self._evaluate_loss(params), "validation_bleu": bleu.value}
        return measured, list(zip(sources, references, translations, strict=True))

    def _translate(self, sources):
        return [translation.text for translation in self.translator.translate(sources)]

    def _evaluate_loss(self, params):
        """Over every validation pair that fits a row, each once."""
        sums = Counter()
        for step in range(self.validation_batches.batches_per_epoch):
            batch = self.parallel.put_batch(self.validation_batches[step])
            found = jax.device_get(self._eval_step(params, batch))
            sums.update({name: float(value) for name, value in found.items()})
        return {
            "validation_loss": sums["loss"] / sums["tokens"],
            "validation_perplexity": metrics.perplexity(sums["nll"], sums["tokens"]),
        }
