"""The task of causal language modelling, and what it shares with the masked one."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.restore import restore
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.files.text import Text
from transformer.data.files.texts import load_text_lines
from transformer.data.rows.lm_batches import WindowBatch, Windows, encode_text
from transformer.data.tokenizers.files import Tokenizer
from transformer.evaluation.loss import evaluate_loss
from transformer.evaluation.scores import TaskScores
from transformer.inference.language_model import LanguageModel
from transformer.model.costs import StepCost, stack_flops
from transformer.model.single_stack import CausalLM
from transformer.parallel.mapping import Parallel
from transformer.tasks.task import Metrics, Task, with_training_options
from transformer.workdir import WorkDir

MAX_SAMPLE_TOKENS = 200
ROWS_OF_MEMORY = 8  # an evaluated row has so many times the tokens of `model.evaluation_memory`


class PlainTextTask(Task):
    """Reads the three splits of a text and makes or loads the run's tokenizer.

    A subclass says which model and batches are made of them, and what to call a target.
    """

    target_unit: ClassVar[str]  # one target, in a report
    # (Config, tokenizer, lines, *, is_training, num_parts) -> batches, `num_parts` times smaller
    # than `training.batch_tokens` says; those that are not for training hold every target once
    make_batches: Any

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        data = config.data
        # The test split too: that it is missing must be said before the training, not after.
        splits = dict.fromkeys((data.train_split, data.validation_split, data.test_split))
        texts = {split: self.load_split(config, split) for split in splits}
        for text in texts.values():
            self.num_skipped.update(text.repairs)
        lines = texts[data.train_split].lines
        self.tokenizer = self._load_or_train_tokenizer(lines)
        self.tokenizers = (self.tokenizer,)
        self.model = self._make_model()
        make_batches = partial(self.make_batches, config, self.tokenizer)
        self.training_batches = make_batches(lines, is_training=True)
        lines, num_parts = texts[data.validation_split].lines, config.training.accumulate_steps
        self.validation_batches = make_batches(lines, num_parts=num_parts)

    @staticmethod
    def load_split(config: Config, split: str) -> Text:
        """Returns the lines of a split that the task uses."""
        return load_text_lines(config.data, split)

    @classmethod
    def score_split(
        cls, path: PathLike, checkpoint: str, split: str, *, corpus: str = "", **options: Any
    ) -> TaskScores:
        run = restore(path, checkpoint, **options)
        config, tokenizer = run.config, run.tokenizers[0]
        config.data.corpus = corpus or config.data.corpus
        batches = cls.make_batches(config, tokenizer, cls.load_split(config, split).lines)
        return evaluate_loss(run, batches, f"{config.data.corpus} {split}", cls.target_unit)


class LanguageModelTask(PlainTextTask):
    """Trains on windows that begin anywhere in the text; validation sees every token once."""

    target_unit = "piece"
    training_batches: Windows
    validation_batches: Windows
    predictor = LanguageModel

    @staticmethod
    def make_batches(
        config: Config,
        tokenizer: Tokenizer,
        lines: Sequence[str],
        *,
        is_training: bool = False,
        num_parts: int = 1,
    ) -> Windows:
        length = config.data.row_length
        if not is_training:
            length = max(length, ROWS_OF_MEMORY * config.model.evaluation_memory)
        return Windows(
            encode_text(tokenizer, lines),
            start=tokenizer.special.eos,
            length=length,
            rows_per_batch=-(-rows_per_batch(config, length) // num_parts),
            seed=config.training.seed if is_training else None,
        )

    @classmethod
    def model_and_blank_batch(cls, config: Config) -> tuple[CausalLM, WindowBatch]:
        model, length = CausalLM(config.model, config.tokenizer.vocab_size), config.data.row_length
        batch = WindowBatch.zeros(rows_per_batch(config, length), length)
        return with_training_options(model, config), batch

    @classmethod
    def cost_without_data(cls, config: Config, vocab_size: int = 0) -> StepCost:
        length = config.data.row_length
        lengths = np.full(rows_per_batch(config, length), length)
        vocab_size = vocab_size or config.tokenizer.vocab_size
        outputs = lengths.sum() * config.model.d_model * vocab_size
        flops = stack_flops(config.model, lengths, causal=True, outputs=outputs)
        return StepCost(flops, int(lengths.sum()))

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics, one text that the model generates from nothing)."""
        num_tokens = min(MAX_SAMPLE_TOKENS, self.config.data.row_length)
        with self._predicting(params) as model:
            (text,) = model.generate([""], num_pieces=num_tokens)
        return self.evaluate_loss(params), ["\n".join(f"    {line}" for line in text.split("\n"))]

    def training_contents(self) -> list[np.ndarray]:
        return [self.training_batches.ids[: self.training_batches.num_ids + 1]]

    @property
    def cost_per_step(self) -> StepCost:
        return self.cost_without_data(self.config, self.tokenizer.vocab_size)

    def summary_lines(self) -> list[str]:
        batches = self.training_batches
        return self._lines(
            f": {len(batches.ids):,} training pieces",
            f"{batches.length} tokens",
            f"{len(self.validation_batches.ids):,} pieces",
        )


def rows_per_batch(config: Config, length: int) -> int:
    """Returns how many windows of a length `training.batch_tokens` allows, at least one."""
    return max(1, config.training.batch_tokens // length)
