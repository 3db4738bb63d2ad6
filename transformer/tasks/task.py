"""The interface through which the training loop and the commands use a task."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, ClassVar

import jax
from etils import epath
from etils.epath import PathLike
from flax import linen as nn

from transformer.checkpoint.restore import Run, make_model
from transformer.checkpoint.train_state import Params
from transformer.checkpoint.warm_start import check_init_from
from transformer.config import Config
from transformer.console import quantity
from transformer.data.corpora.cleaning import filter_by_length
from transformer.data.files.labels import Labels
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import (
    Tokenizer,
    load_tokenizers,
    save_tokenizers,
    train_tokenizer,
    vocabulary_of,
)
from transformer.evaluation.loss import make_eval_step, sum_over_batches
from transformer.evaluation.scores import TaskScores
from transformer.model.costs import StepCost
from transformer.model.loss import Sums, make_loss_fn, perplexity
from transformer.parallel.hosts import leave_together
from transformer.parallel.mapping import Parallel
from transformer.workdir import WorkDir

Metrics = dict[str, float]


def with_training_options(model: Any, config: Config) -> Any:
    """Returns the model with the options that only matter in training."""
    return model.clone(remat=config.remat, scan_layers=config.scan_layers)


class Task:
    """What a run learns: its data, model, loss and metric. One subclass per task.

    A subclass's constructor calls this one, reads the data, and sets `model`, `training_batches`
    and `validation_batches`. Training needs no more; every method has a default that fits a model
    of logits [B, T, V] and batches with `targets` and `weights` [B, T].

    `batches[step]` is a NamedTuple of NumPy arrays [B, …]. For training there is one for every step
    from 0 on, by the seed and the step alone; `rows_per_batch` is B, and `batches_per_epoch` of
    them hold every example once. Rows of zeros, which are added until the devices share a batch
    evenly, must count for nothing.
    """

    model: nn.Module  # called with (batch, deterministic=…)
    tokenizers: tuple[Tokenizer, ...] = ()  # one, or those of source and target
    labels = Labels([])  # the classes
    make_loss_fn = staticmethod(make_loss_fn)  # of a model and its label smoothing
    training_batches: Any
    validation_batches: Any
    predictor: ClassVar[Any] = None  # the `Predictor` that uses what such a task has learnt
    label_smoothing: float
    num_skipped: Counter[str]  # training examples that were left out, by reason
    num_skipped_validation: Counter[str]  # of those that are packed into rows
    selection_key: str = "validation_loss"  # in metrics.jsonl; its best value is checkpoint "best"
    higher_is_better: bool = False  # the value of `selection_key`

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        self.config, self.parallel, self.workdir = config, parallel, workdir
        self.label_smoothing = config.training.label_smoothing
        self.num_skipped, self.num_skipped_validation = Counter(), Counter()
        if config.training.init_from and not workdir.has_run:
            check_init_from(config)
        # The work directory to take tokenizers and classes from, if this run makes none itself.
        self._source = vocabulary_of(workdir, config.training.init_from)

    # ---- for the training loop

    def loss_fn(self, params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        """Returns (loss, sums), summed over the targets of a batch; rng=None: without dropout.

        `sums` holds "loss" and "tokens" (the number of targets), and "nll", the loss without
        label smoothing, where a perplexity makes sense.
        """
        return self.make_loss_fn(self.model, self.label_smoothing)(params, batch, rng)

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics of the validation split, samples of outputs as text)."""
        return self.evaluate_loss(params), []

    @property
    def cost_per_step(self) -> StepCost | None:
        """What a training step computes on real tokens; None if unknown."""
        return None

    # ---- for train.py

    def summary_lines(self) -> list[str]:
        """Returns lines for the start-up summary: what was read and how it is batched."""
        return []

    def training_contents(self) -> Sequence[Any]:
        """Returns what was read to train on: arrays, and objects with a repr.

        A run is not resumed with other contents; empty: they are not compared.
        """
        return []

    def data_contents(self) -> Sequence[Any]:
        """Returns what was read, as `training_contents`, to be compared between hosts."""
        batches = self.training_batches[0], self.validation_batches[0]
        return [*self.training_contents(), *batches[0], *batches[1]]

    def save(self, folder: epath.Path) -> None:
        """Writes the tokenizers and the classes, which the checkpoints then hold, too."""
        if self.tokenizers:
            save_tokenizers(folder, self.tokenizers[0], self.tokenizers[-1])
        if self.labels.names:
            self.labels.save(folder)

    def score_test_split(self) -> TaskScores | None:
        """Scores the run's default checkpoint on the test split; None for a task without scores."""
        if type(self).score_split.__func__ is Task.score_split.__func__:
            return None
        return self.score_split(self.workdir.path, "default", self.config.data.test_split)

    @classmethod
    def model_and_blank_batch(cls, config: Config) -> tuple[nn.Module, Any]:
        """Returns (model, batch of zeros) for a dry run, or to restore a run, without its data."""
        raise ValueError(
            f"The shapes of a run of {config.task} depend on its data: leave out --topology; to "
            f"restore one, define {cls.__name__}.model_and_blank_batch."
        )

    @classmethod
    def cost_without_data(cls, config: Config) -> StepCost | None:
        """Returns what a step of full rows computes, for a dry run without data."""
        return None

    # ---- for eval.py, which opens a finished run

    @classmethod
    def score_split(
        cls, path: PathLike, checkpoint: str, split: str, *, corpus: str = "", **options: Any
    ) -> TaskScores:
        """Scores a checkpoint of the run at `path`; options: dtype and batch_size, as of `restore`.

        corpus: where the split is, if not where the run's configuration says.
        """
        raise ValueError(f"{cls.__name__} does not say how to score a split.")

    # ---- shared by all tasks

    def _make_model(self) -> nn.Module:
        """Returns the network of `config.task` for the tokenizers and the classes."""
        model = make_model(self.config, self.tokenizers, self.labels)
        return with_training_options(model, self.config)

    def evaluate_loss(self, params: Params) -> Metrics:
        """Returns `loss_metrics` of the whole validation split."""

        def evaluate(batch: Any) -> Sums:
            leave_together()
            return self._eval_step(params, self.parallel.put_batch(batch))

        return self.loss_metrics(sum_over_batches(self.validation_batches, evaluate))

    def loss_metrics(self, sums: Mapping[str, float]) -> Metrics:
        """Returns the mean loss, and the perplexity if there is one, of the sums of `loss_fn`."""
        if not sums["tokens"]:
            raise ValueError("No token of the validation split counts in the loss: add text to it.")
        metrics = {"validation_loss": sums["loss"] / sums["tokens"]}
        if "nll" in sums:
            metrics["validation_perplexity"] = perplexity(sums["nll"], sums["tokens"])
        return metrics

    @cached_property
    def _eval_step(self) -> jax.stages.Wrapped:
        return self.parallel.map_step(partial(make_eval_step, self.loss_fn))

    @cached_property
    def _predictor(self) -> Any:
        return self.predictor(Run.in_memory(self.config, self.tokenizers, self.labels))

    @contextmanager
    def _predicting(self, params: Params) -> Iterator[Any]:
        """Yields the `predictor`, which has the parameters for as long as this lasts."""
        self._predictor.params = self.parallel.copy_to_one_device(params)
        try:
            yield self._predictor
        finally:
            self._predictor.params = None  # training may have memory for a part of them only

    def _load_or_train_tokenizer(self, texts: Sequence[str]) -> Tokenizer:
        """Returns the tokenizer of `_source`, or one trained on `texts`."""
        if self._source:
            return load_tokenizers(self._source.path)[0]
        return train_tokenizer(self.config.tokenizer, texts)

    def _fitting(
        self, what: str, source: Ragged, target: Ragged
    ) -> tuple[Ragged, Ragged, Counter[str]]:
        """Returns the pairs that fit a row, and counts of the others by reason."""
        length = self.config.data.row_length
        kept, left_out = filter_by_length(source, target, length, max_length_ratio=0)
        if not len(kept):
            raise ValueError(f"No {what} fits data.row_length ({length}) tokens; raise it.")
        skipped = Counter({reason: len(indices) for reason, indices in left_out.items()})
        return source.take(kept), target.take(kept), skipped

    def _lines(self, data: str, row: str, validation: str) -> list[str]:
        """Returns lines of the start-up summary; row: what a row of a batch holds."""
        batches = self.training_batches
        tokenizers = self.tokenizers[: 1 if self.config.tokenizer.shared else 2]
        sizes = [f"{tokenizer.vocab_size:,}" for tokenizer in tokenizers]
        left_out, no_loss = (
            ", ".join(f"{number:,} of {reason}" for reason, number in counts.items())
            for counts in (self.num_skipped, self.num_skipped_validation)
        )
        return [
            f"data        {self.config.data.corpus}{data}{left_out and f'; left out: {left_out}'}",
            *([f"vocabulary  {' and '.join(sizes)} pieces"] if sizes else []),
            f"batch       {quantity(batches.rows_per_batch, 'row')} of {row}; "
            f"{quantity(batches.batches_per_epoch, 'batch')} an epoch",
            f"validation  {validation}{no_loss and f'; not in the loss: {no_loss}'}",
        ]
