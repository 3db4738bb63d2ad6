"""What Translator, Classifier and the like share: a model and parameters on devices."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import jax
import numpy as np
from etils.epath import PathLike
from jax.typing import DTypeLike

from transformer.checkpoint.restore import Restored, cast_matrices, count_parameters, restore
from transformer.checkpoint.task_model import make_model
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.data.bucketing import fill_inputs, plan_batches
from transformer.data.labels import Labels
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import Tokenizer
from transformer.parallel.hosts import leave_if_told
from transformer.search.programs import make_replicas, one_behind, replicate


class Predictor:
    """A model whose parameters can be replaced without compiling again.

    checkpoint, workdir: the name of the checkpoint in use and where it lies; "in memory" and "" for
    parameters that were given.
    step, num_averaged: its step (None in memory) and the number of checkpoints in its mean.
    tokenizers, labels: those of the run; empty where its task has none.
    num_truncated: examples so far that were longer than the longest that the model takes.
    """

    tasks: ClassVar[tuple[str, ...]]  # those whose runs it opens

    def __init__(
        self,
        config: Config,
        params: Params | None,
        tokenizers: tuple[Tokenizer, ...],
        labels: Labels,
        devices: Sequence[jax.Device],
    ) -> None:
        self.config = config
        self.tokenizers, self.labels = tokenizers, labels
        self.model = make_model(config, tokenizers, labels)
        self.replicas = make_replicas(devices)
        self.checkpoint, self.workdir = "in memory", ""
        self.step: int | None = None
        self.num_averaged = 1
        self.num_truncated = 0
        self.params = params

    @classmethod
    def from_checkpoint(
        cls,
        workdir: PathLike,
        checkpoint: str | int = "default",
        *,
        dtype: DTypeLike | None = None,
        batch_size: int | None = None,
    ) -> Self:
        """Restores a run from its work directory or an export of it, local or gs://.

        The arguments and errors are those of `transformer.restore`; `batch_size` is the number of
        examples that a device computes at once.
        """
        restored = restore(workdir, checkpoint, tasks=cls.tasks, dtype=dtype, batch_size=batch_size)
        predictor = cls._without_params(restored)
        predictor.use(restored)
        return predictor

    @classmethod
    def _without_params(cls, restored: Restored) -> Self:
        """Returns an object of the class for a restored run."""
        raise NotImplementedError

    def use(self, restored: Restored) -> None:
        """Computes with the parameters of another checkpoint of the same run from now on."""
        self.params, self.checkpoint = restored.params, restored.checkpoint
        self.step, self.num_averaged = restored.step, restored.num_averaged
        self.workdir = str(restored.workdir.path)

    @property
    def params(self) -> Params | None:
        """The parameters on every device, matrices in `model.dtype`; None frees their memory."""
        return self._params

    @params.setter
    def params(self, params: Params | None) -> None:
        cast = None if params is None else cast_matrices(params, self.config)
        self._params = None if params is None else replicate(self.replicas, cast)

    def __repr__(self) -> str:
        """As "Translator(runs/x, best (600), en-de, 1.18M parameters, float32, 1 × cpu)"."""
        devices = self.replicas.devices.ravel()
        facts = [*filter(None, [self.workdir]), self.checkpoint, *self._facts()]
        facts += [count_parameters(self._params), self.config.model.dtype]
        facts.append(f"{len(devices)} × {devices[0].device_kind}")
        return f"{type(self).__name__}({', '.join(facts)})"

    def _facts(self) -> list[str]:
        """Returns what is to be known of the run, for `repr`."""
        return []


class EncoderPredictor(Predictor):
    """A model that reads each example in one pass of an encoder, on one device.

    tokenizers: that of the texts first; a model of images has none.
    """

    def __init__(
        self, config: Config, params: Params | None, labels: Labels, *tokenizers: Tokenizer
    ) -> None:
        super().__init__(config, params, tokenizers, labels, jax.local_devices()[:1])
        self.tokenizer: Any = tokenizers[0] if tokenizers else None
        self._compiled = jax.jit(self._apply)

    @classmethod
    def _without_params(cls, restored: Restored) -> Self:
        return cls(restored.config, None, restored.labels, *restored.tokenizers)

    def _facts(self) -> list[str]:
        return [f"{len(self.labels.names)} classes"] if self.labels.names else []

    def _apply(self, params: Params, batch: Any) -> jax.Array:
        """Returns an answer for each row of a batch, [B, …]."""
        raise NotImplementedError

    def _answers(
        self, batches: Iterator[tuple[np.ndarray, Any]]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (index, answer) of each example; batches: (indices [B], -1 for none; B rows)."""
        given = ((indices, self._compiled(self._params, batch)) for indices, batch in batches)
        for indices, results in one_behind(given):
            leave_if_told()
            answers = jax.device_get(results)
            for row in np.flatnonzero(indices >= 0):
                yield int(indices[row]), answers[row]

    def _sentence_batches(self, source: Ragged) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yields (indices [B] of the sentences, -1 for an empty row; one sentence per row, T = 1).

        Sentences longer than `data.row_length` tokens are cut and counted.
        """
        longest, size = self.config.data.row_length, self.config.decoding.batch_size
        for indices, bucket in plan_batches(source.lengths, longest, size):
            inputs, lengths, num_truncated = fill_inputs(source, indices[0], bucket)
            self.num_truncated += num_truncated
            yield indices[0], Batch.from_arrays(inputs, input_lengths=lengths)
