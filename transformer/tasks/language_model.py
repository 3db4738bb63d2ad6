"""The task of causal language modelling: a text, one piece after the other."""

import json
from itertools import islice

import numpy as np

from transformer.checkpoint.restore import restore
from transformer.data.lm_batches import ConsecutiveWindows, RandomWindows, WindowBatch
from transformer.data.plain_text import load_text_lines
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import load_tokenizers, save_tokenizers
from transformer.evaluate.loss import evaluate_loss
from transformer.inference.language_model import LanguageModel
from transformer.model.costs import stack_flops
from transformer.model.decoder_only import CausalLM
from transformer.tasks.task import Task

SAMPLE_PIECES = 200
AT_ONCE = 1024  # prompts


class LanguageModelTask(Task):
    """Training sees windows that begin anywhere; validation every piece once."""

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel)
        data, settings = config.data, config.training
        splits = data.train_split, data.validation_split, data.test_split
        texts = {split: load_text_lines(data, split) for split in dict.fromkeys(splits)}
        for text in texts.values():
            self.notes.update(text.repairs)
        lines = {split: text.lines for split, text in texts.items()}
        self.tokenizer = self._one_tokenizer(workdir, lines[data.train_split])
        ids, validation_ids = (
            Ragged.encode(self.tokenizer, lines[split]).flat for split in splits[:2]
        )
        size = window_shape(config)
        self.generator = LanguageModel(config, None, self.tokenizer)
        self._set_up(
            self.generator.model.clone(remat=config.remat, scan_layers=config.scan_layers),
            RandomWindows(ids, **size, seed=settings.seed),
            ConsecutiveWindows(validation_ids, **size),
            settings.label_smoothing,
        )

    @staticmethod
    def model_and_blank_batch(config):
        model = CausalLM(
            config.model,
            config.tokenizer.vocab_size,
            remat=config.remat,
            scan_layers=config.scan_layers,
        )
        size = window_shape(config)
        shape = size["rows_per_batch"], size["length"]
        return model, WindowBatch(np.zeros(shape, np.int32), np.zeros(shape, np.int32))

    def evaluate(self, params):
        self.generator.params = self.parallel.copy_to_one_device(params)
        pieces = min(SAMPLE_PIECES, self.config.data.row_length)
        (text,) = self.generator.generate([""], num_pieces=pieces)
        self.generator.params = None
        return self.evaluate_loss(params), ["\n".join(f"    {t}" for t in text.split("\n"))]

    @staticmethod
    def score_split(path, checkpoint, split, **settings):
        restored = restore(path, checkpoint, tasks=["language_model"], **settings)
        config, tokenizer = restored.config, load_tokenizers(restored.workdir.path)[0]
        lines = load_text_lines(config.data, split).lines
        batches = ConsecutiveWindows(Ragged.encode(tokenizer, lines).flat, **window_shape(config))
        model = CausalLM(config.model, tokenizer.vocab_size)
        return evaluate_loss(model, restored, batches, f"{config.data.corpus} {split}", "piece")

    @staticmethod
    def predict_lines(path, checkpoint, lines, options, **settings):
        model = LanguageModel.from_checkpoint(path, checkpoint, **settings)
        while part := list(islice(lines, AT_ONCE)):
            yield from model.generate(part, one_line=True, **options)

    def data_contents(self):
        return [self.training_batches.ids, self.validation_batches.ids]

    def save(self, folder):
        save_tokenizers(folder, self.tokenizer, self.tokenizer)

    @property
    def cost_per_step(self):
        batches, model = self.training_batches, self.config.model
        lengths = np.full(batches.rows_per_batch, batches.length)
        outputs = lengths.sum() * model.d_model * self.tokenizer.vocab_size
        return stack_flops(model, lengths, causal=True, outputs=outputs), int(lengths.sum())

    def next_commands(self, workdir):
        program = (
            f"from transformer import LanguageModel; "
            f"print(LanguageModel.from_checkpoint({json.dumps(workdir)}).generate(['The '])[0])"
        )
        return "The ", program

    def summary_lines(self):
        num_pieces, num_validation = (
            len(batches.ids) for batches in (self.training_batches, self.validation_batches)
        )
        return [
            f"data        {self.config.data.corpus}: {num_pieces:,} training pieces",
            f"vocabulary  {self.tokenizer.vocab_size:,} pieces",
            self.batch_summary(f"{self.training_batches.length} places"),
            f"validation  {num_validation:,} pieces",
        ]


def window_shape(config):
    """How long windows are and how many a batch holds; `training.batch_tokens` counts pieces."""
    length = config.data.row_length
    return dict(length=length, rows_per_batch=max(1, config.training.batch_tokens // length))
