"""The task of causal language modelling: each token is predicted from those before it."""

from collections.abc import Sequence

import numpy as np

from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.rows.lm_batches import WindowBatch, Windows, encode_text
from transformer.data.tokenizers.files import Tokenizer
from transformer.inference.language_model import LanguageModel
from transformer.model.costs import StepCost, stack_flops
from transformer.model.single_stack import CausalLM
from transformer.tasks.plain_text import PlainTextTask
from transformer.tasks.task import Metrics, with_training_options

MAX_SAMPLE_TOKENS = 200
ROWS_OF_MEMORY = 8  # an evaluated row has so many times the tokens of `model.evaluation_memory`


class LanguageModelTask(PlainTextTask):
    """Trains on windows that begin anywhere in the text; validation sees every token once."""

    config_name, target_unit = "language_model", "piece"
    training_batches: Windows
    validation_batches: Windows
    predictor = LanguageModel

    @staticmethod
    def make_training_batches(
        config: Config, tokenizer: Tokenizer, lines: Sequence[str]
    ) -> Windows:
        return Windows(
            encode_text(tokenizer, lines),
            start=tokenizer.special.eos,
            length=config.data.row_length,
            rows_per_batch=rows_per_batch(config),
            seed=config.training.seed,
        )

    @staticmethod
    def make_evaluation_batches(
        config: Config, tokenizer: Tokenizer, lines: Sequence[str], *, num_parts: int = 1
    ) -> Windows:
        length = max(config.data.row_length, ROWS_OF_MEMORY * config.model.evaluation_memory)
        num_rows = max(1, config.training.batch_tokens // length)
        return Windows(
            encode_text(tokenizer, lines),
            start=tokenizer.special.eos,
            length=length,
            rows_per_batch=-(-num_rows // num_parts),
        )

    @classmethod
    def model_and_blank_batch(cls, config: Config) -> tuple[CausalLM, WindowBatch]:
        model = CausalLM(config.model, config.tokenizer.vocab_size)
        batch = WindowBatch.zeros(rows_per_batch(config), config.data.row_length)
        return with_training_options(model, config), batch

    @classmethod
    def cost_without_data(cls, config: Config) -> StepCost:
        return cost_of_step(config, config.tokenizer.vocab_size)

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics, one text that the model generates from nothing)."""
        num_tokens = min(MAX_SAMPLE_TOKENS, self.config.data.row_length)
        with self._predicting(params) as model:
            (text,) = model.generate([""], num_pieces=num_tokens)
        return self.evaluate_loss(params), ["\n".join(f"    {line}" for line in text.split("\n"))]

    def training_contents(self) -> list[np.ndarray]:
        return [self.training_batches.ids]

    @property
    def cost_per_step(self) -> StepCost:
        return cost_of_step(self.config, self.tokenizer.vocab_size)

    def summary_lines(self) -> list[str]:
        batches = self.training_batches
        return self._lines(
            f": {len(batches.ids):,} training pieces",
            f"{batches.length} tokens",
            f"{len(self.validation_batches.ids):,} pieces",
        )


def cost_of_step(config: Config, vocab_size: int) -> StepCost:
    """Returns the cost of a step, whose windows all have the same length."""
    lengths = np.full(rows_per_batch(config), config.data.row_length)
    outputs = lengths.sum() * config.model.d_model * vocab_size
    flops = stack_flops(config.model, lengths, causal=True, outputs=outputs)
    return StepCost(flops, int(lengths.sum()))


def rows_per_batch(config: Config) -> int:
    """Returns how many windows `training.batch_tokens` allows, at least one."""
    return max(1, config.training.batch_tokens // config.data.row_length)
