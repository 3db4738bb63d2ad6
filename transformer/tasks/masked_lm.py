"""The task of masked language modelling, whose encoder other runs can start from."""

from collections import Counter
from functools import cached_property

from transformer.checkpoint.restore import restore
from transformer.data.batch import Batch
from transformer.data.lm_batches import MaskedBatches
from transformer.data.packing import PackedBatches, num_rows_of_batch
from transformer.data.plain_text import load_text_lines
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import load_tokenizers, save_tokenizers
from transformer.evaluate.loss import evaluate_loss
from transformer.model.costs import stack_flops
from transformer.model.encoder_only import MaskedLM
from transformer.tasks.task import Task


class MaskedLMTask(Task):
    """Each line of a text is a sentence; empty ones are left out, long ones cut into rows."""

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel)
        data, settings = config.data, config.training
        splits = data.train_split, data.validation_split, data.test_split
        lines = {s: load_nonempty_lines(config, s, self.notes) for s in dict.fromkeys(splits)}
        self.tokenizer = self._one_tokenizer(workdir, lines[data.train_split])
        rows = num_rows_of_batch(settings.batch_tokens, data.row_length)
        few = -(-rows // settings.accumulate_steps)
        self._set_up(
            MaskedLM(
                config.model,
                self.tokenizer.vocab_size,
                remat=config.remat,
                scan_layers=config.scan_layers,
            ),
            make_masked_batches(config, self.tokenizer, lines[data.train_split], rows),
            make_masked_batches(config, self.tokenizer, lines[data.validation_split], few),
        )

    @staticmethod
    def model_and_blank_batch(config):
        size = config.tokenizer.vocab_size
        length = config.data.row_length
        rows = num_rows_of_batch(config.training.batch_tokens, length)
        model = MaskedLM(config.model, size, remat=config.remat, scan_layers=config.scan_layers)
        return model, Batch.zeros(rows, length)

    @classmethod
    def score_split(cls, path, checkpoint, split, **settings):
        restored = restore(path, checkpoint, tasks=["masked_lm"], **settings)
        config, tokenizer = restored.config, load_tokenizers(restored.workdir.path)[0]
        rows = num_rows_of_batch(config.training.batch_tokens, config.data.row_length)
        batches = make_masked_batches(
            config, tokenizer, load_nonempty_lines(config, split, Counter()), rows
        )
        model = MaskedLM(config.model, tokenizer.vocab_size)
        return evaluate_loss(
            model, restored, batches, f"{config.data.corpus} {split}", "hidden piece"
        )

    def data_contents(self):
        return [
            batches.packed.source.flat
            for batches in (self.training_batches, self.validation_batches)
        ]

    def save(self, folder):
        save_tokenizers(folder, self.tokenizer, self.tokenizer)

    @cached_property
    def cost_per_step(self):
        lengths, model = self.training_batches.packed.source.lengths, self.config.model
        outputs = lengths.sum() * model.d_model * self.tokenizer.vocab_size
        steps = self.training_batches.batches_per_epoch
        guesses = lengths.sum() * self.config.data.mask_rate
        return stack_flops(model, lengths, outputs=outputs) / steps, guesses / steps

    def next_commands(self, workdir):
        return "", ""

    def summary_lines(self):
        packed = self.training_batches.packed
        return [
            f"data        {self.config.data.corpus}: {packed.source.lengths.sum():,} training "
            f"pieces; {self.config.data.mask_rate:.0%} of them to be guessed",
            f"vocabulary  {self.tokenizer.vocab_size:,} pieces",
            self.batch_summary(
                f"{packed.shape[0]} places", f", {packed.fill(10):.1%} of them real"
            ),
            f"validation  {self.validation_batches.packed.source.lengths.sum():,} pieces",
        ]


def load_nonempty_lines(config, split, notes):
    """The lines of a split that are not empty."""
    lines, repairs = load_text_lines(config.data, split)
    notes.update(repairs)
    return [line for line in lines if line.strip()]


def make_masked_batches(config, tokenizer, lines, rows_per_batch):
    """`MaskedBatches` of the lines."""
    data, seed = config.data, config.training.seed
    text = Ragged.encode(tokenizer, lines).split_longer(data.row_length)
    rows = dict(row_length=data.row_length, rows_per_batch=rows_per_batch)
    packed = PackedBatches(text, text, **rows, seed=seed)
    return MaskedBatches(packed, rate=data.mask_rate, vocab_size=tokenizer.vocab_size, seed=seed)
