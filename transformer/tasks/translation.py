"""The task of translation: pairs of sentences."""

import json
from collections import Counter
from functools import cached_property

from transformer.data import parallel_text
from transformer.data.batch import Batch
from transformer.data.packing import PackedBatches, filter_by_length, num_rows_of_batch
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import load_tokenizers, save_tokenizers, train_tokenizers
from transformer.evaluate import metrics
from transformer.evaluate.translation import evaluate_translator
from transformer.inference.translator import Translator
from transformer.model.costs import training_flops
from transformer.model.encoder_decoder import Transformer
from transformer.parallel.hosts import split_over_hosts
from transformer.tasks.task import Task


class TranslationTask(Task):
    """Its data, model and measures; the tokenizers are the run's, or learnt from its text."""

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel)
        self.selection_metric = config.data.selection_metric
        self.selection_key = f"validation_{self.selection_metric}"
        self.higher_is_better = self.selection_metric not in metrics.LOWER_IS_BETTER
        self.direction = f"{config.data.source_language}-{config.data.target_language}"
        pairs, weights, problems = parallel_text.load_training_pairs(config.data)
        self.notes.update(problems)
        if workdir.has_run:
            self.tokenizers = load_tokenizers(workdir.path)
        else:
            self.tokenizers = train_tokenizers(config.tokenizer, pairs)
        settings = config.training
        rows = num_rows_of_batch(settings.batch_tokens, config.data.row_length)
        ratio = config.data.max_length_ratio
        training_batches = self._pack(pairs, weights, rows, ratio, self.notes)
        split = config.data.validation_split
        self.validation_pairs = parallel_text.load_evaluation_pairs(config.data, split)
        # Read now, so that a test set that is missing is said before the training and not after.
        self.test_pairs = parallel_text.load_evaluation_pairs(config.data, config.data.test_split)
        self.not_in_loss = Counter()  # validation pairs that are too long for a row
        validation_batches = self._pack(  # no larger than what a training step holds at once
            self.validation_pairs, None, -(-rows // settings.accumulate_steps), 0, self.not_in_loss
        )
        self.translator = Translator(config, None, self.tokenizers)
        model = self.translator.model.clone(remat=config.remat, scan_layers=config.scan_layers)
        self._set_up(model, training_batches, validation_batches, settings.label_smoothing)

    @staticmethod
    def model_and_blank_batch(config):
        """(model, batch of zeros), for rows as long on the source's side, and full vocabularies."""
        size = config.tokenizer.vocab_size
        model = Transformer(
            config.model, size, size, remat=config.remat, scan_layers=config.scan_layers
        )
        length = config.data.row_length
        rows = num_rows_of_batch(config.training.batch_tokens, length)
        return model, Batch.zeros(rows, length)

    def data_contents(self):
        packed = self.training_batches, self.validation_batches
        sides = [side for batches in packed for side in (batches.source, batches.target)]
        arrays = [x for side in sides for x in (side.flat, side.starts, side.lengths)]
        return [*arrays, self.validation_pairs, self.test_pairs]

    def save(self, folder):
        save_tokenizers(folder, *self.tokenizers)

    @cached_property
    def cost_per_step(self):
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
        kept, skipped = filter_by_length(*sides, row_length, max_length_ratio)
        notes.update(skipped)
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
        """(metrics of the validation split, every translation beside its reference)."""
        limit = self.config.data.max_validation_sentences or len(self.validation_pairs)
        sources, targets = zip(*self.validation_pairs[:limit], strict=True)
        references = [self.tokenizers[1].join_pieces(target) for target in targets]
        self.translator.params = self.parallel.copy_to_one_device(params)
        try:
            translations = split_over_hosts(self._translate, sources)
        finally:
            self.translator.params = None  # a whole copy, where training may have room for a part
        texts = translations, references, self.direction
        tokenize = self.config.data.bleu_tokenize
        score = metrics.score_by(self.selection_metric, *texts, tokenize=tokenize)
        measured = {**self.evaluate_loss(params), self.selection_key: score.value}
        texts = zip(sources, references, translations, strict=True)
        return measured, [f"    {a}\n    = {b}\n    > {c}" for a, b, c in texts]

    def _translate(self, sources):
        return [translation.text for translation in self.translator.translate(sources)]

    def format_metrics(self, found):
        return (
            f"loss {found['validation_loss']:.4f}  perplexity "
            f"{found['validation_perplexity']:.3f}  {metrics.METRICS[self.selection_metric]} "
            f"{found[self.selection_key]:.2f}"
        )

    def score_test_split(self, workdir):
        translator = Translator.from_checkpoint(workdir.path)
        data = self.config.data
        return evaluate_translator(translator, self.test_pairs, f"{data.corpus} {data.test_split}")

    def next_commands(self, workdir):
        sentence = self.test_pairs[0][0]
        folder, source = (json.dumps(text, ensure_ascii=False) for text in (workdir, sentence))
        return sentence, (
            f"from transformer import Translator; "
            f"print(Translator.from_checkpoint({folder}).translate([{source}])[0])"
        )

    def summary_lines(self):
        batches, validation = self.training_batches, self.validation_batches
        sizes = (f"{t.vocab_size:,}" for t in dict.fromkeys(self.tokenizers))
        source_length, target_length = batches.shape
        lines = [
            f"data        {self.config.data.corpus} {self.direction}: {len(batches.source):,} "
            f"training pairs; left out: {self.skipped_text()}",
            f"vocabulary  {' and '.join(sizes)} pieces",
            self.batch_summary(
                f"{source_length} + {target_length} places",
                f", {batches.fill(10):.1%} of them real",
            ),
            f"validation  {len(self.validation_pairs):,} pairs, {validation.batches_per_epoch} "
            f"batches",
        ]
        for reason, count in self.not_in_loss.items():
            lines.append(f"            {count:,} of {reason}: in the BLEU, not in the loss")
        return lines
