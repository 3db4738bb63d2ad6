"""The task of masked language modelling, whose encoder other runs can start from."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import say
from transformer.data.files.text import Text
from transformer.data.files.texts import load_text_lines
from transformer.data.rows.encoded_texts import encode_texts
from transformer.data.rows.masked_batches import MaskedBatch, MaskedBatches, make_sentence_pairs
from transformer.data.rows.packing import PackedBatches, full_rows, num_rows_of_batch
from transformer.data.tokenizers.files import Tokenizer
from transformer.model.costs import StepCost, stack_flops
from transformer.model.loss import Sums, cross_entropy
from transformer.model.single_stack import MaskedLM
from transformer.parallel.mapping import Parallel
from transformer.tasks.language_model import PlainTextTask
from transformer.tasks.task import Metrics, with_training_options
from transformer.workdir import WorkDir


class MaskedLMTask(PlainTextTask):
    """Takes each line as a sentence; empty ones are left out, long ones cut to rows.

    With `model.next_sentence` it takes pairs of pieces of documents instead.
    """

    target_unit = "masked token"
    training_batches: MaskedBatches
    validation_batches: MaskedBatches

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        self.label_smoothing = 0.0

    @staticmethod
    def load_split(config: Config, split: str) -> Text:
        lines, repairs = load_text_lines(config.data, split)
        if config.model.next_sentence:
            return Text(lines, repairs)
        return Text([line for line in lines if line.strip()], repairs)

    @staticmethod
    def make_batches(
        config: Config,
        tokenizer: Tokenizer,
        lines: Sequence[str],
        *,
        is_training: bool = False,
        num_parts: int = 1,
    ) -> MaskedBatches:
        """Packs the lines into rows, each cut where it is longer than a row."""
        data, seed = config.data, config.training.seed
        if config.model.next_sentence:
            source, target, num_cut = make_sentence_pairs(
                tokenizer, lines, length=data.row_length, seed=seed
            )
            if num_cut:
                num_tokens = source.lengths.sum() + num_cut
                say(f"{num_cut:,} of {num_tokens:,} tokens are cut off their pairs")
        else:
            source = encode_texts(tokenizer, lines, config.model).split_longer(data.row_length)
            target = source
        num_rows = num_rows_of_batch(config.training.batch_tokens, data.row_length)
        packed = PackedBatches(
            source,
            target,
            row_length=data.row_length,
            rows_per_batch=-(-num_rows // num_parts),
            seed=seed,
        )
        size, special = tokenizer.vocab_size, tokenizer.special
        return MaskedBatches(
            packed, rate=data.mask_rate, vocab_size=size, special=special, seed=seed
        )

    def loss_fn(self, params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        """With pairs, returns the loss of the masked tokens + that of the pairs · tokens of a pair.

        Divided by the number of tokens, as all is, this is the mean of each, added up, as in BERT.
        """
        if not self.config.model.next_sentence:
            return super().loss_fn(params, batch, rng)
        rngs = None if rng is None else {"dropout": rng}
        outputs: Any = self.model.apply(
            {"params": params}, batch, deterministic=rng is None, rngs=rngs, method="predict_both"
        )
        logits, pair_logits = outputs
        loss, nll, tokens = cross_entropy(logits, batch.targets, batch.weights)
        begins = (batch.input_positions == 0) & (batch.input_segments != 0)
        labels = jnp.where(begins, batch.pair_labels, 0)
        pair_loss, _, num_pairs = cross_entropy(pair_logits, labels, begins)
        mean_length = float(self.training_batches.packed.source.lengths.mean())
        loss += pair_loss * (self.config.data.mask_rate * mean_length)
        num_right = (begins & (pair_logits.argmax(-1) == labels)).sum()
        sums = {"loss": loss, "nll": nll, "tokens": tokens}
        return loss, sums | {"pairs": num_pairs, "right": num_right}

    def loss_metrics(self, sums: Mapping[str, float]) -> Metrics:
        metrics = super().loss_metrics(sums)
        if "pairs" in sums:
            metrics["validation_next_sentence_accuracy"] = 100 * sums["right"] / sums["pairs"]
        return metrics

    @classmethod
    def model_and_blank_batch(cls, config: Config) -> tuple[MaskedLM, MaskedBatch]:
        model, data = MaskedLM(config.model, config.tokenizer.vocab_size), config.data
        num_rows = num_rows_of_batch(config.training.batch_tokens, data.row_length)
        batch = MaskedBatch.zeros(num_rows, data.row_length, data.mask_rate)
        return with_training_options(model, config), batch

    @classmethod
    def cost_without_data(cls, config: Config) -> StepCost:
        lengths = full_rows(config.training.batch_tokens, config.data.row_length)
        return cls._cost(config, lengths, config.tokenizer.vocab_size)

    @staticmethod
    def _cost(config: Config, lengths: np.ndarray, vocab_size: int) -> StepCost:
        """Returns the cost of a step over sentences of these lengths."""
        num_targets = lengths.sum() * config.data.mask_rate
        outputs = num_targets * config.model.d_model * vocab_size
        return StepCost(stack_flops(config.model, lengths, outputs=outputs), num_targets)

    def training_contents(self) -> list[np.ndarray]:
        return [self.training_batches.packed.source.flat]

    @cached_property
    def cost_per_step(self) -> StepCost:
        packed = self.training_batches.packed
        cost = self._cost(self.config, packed.source.lengths, self.tokenizer.vocab_size)
        return StepCost(*(number / packed.batches_per_epoch for number in cost))

    def summary_lines(self) -> list[str]:
        packed, rate = self.training_batches.packed, self.config.data.mask_rate
        num_pieces = self.validation_batches.packed.source.lengths.sum()
        return self._lines(
            f": {packed.source.lengths.sum():,} training pieces; {rate:.0%} of them to be guessed",
            f"{packed.shape[0]} tokens, {packed.fill(10):.1%} of them real",
            f"{num_pieces:,} pieces",
        )
