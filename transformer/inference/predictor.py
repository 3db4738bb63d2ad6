"""What Translator, Classifier and the like share: a model and parameters on devices."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import jax
import numpy as np
from etils.epath import PathLike
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.restore import Run, cast_matrices, count_parameters, restore
from transformer.checkpoint.train_state import Params
from transformer.parallel.hosts import leave_if_told
from transformer.search.programs import make_replicas


class Predictor:
    """A run whose parameters are on devices, and can be replaced without compiling again.

    run: what was restored, its parameters excepted.
    num_truncated: examples so far that were longer than the longest that the model takes.
    """

    tasks: ClassVar[tuple[str, ...]]  # those whose runs it opens
    most_devices: ClassVar[int | None] = 1  # that it can compute on

    def __init__(self, run: Run, devices: Sequence[jax.Device] | None = None) -> None:
        """Takes a run, as `restore` returns it, to `devices`; None: all local ones."""
        self.config, self.model = run.config, run.model
        self.tokenizers, self.labels = run.tokenizers, run.labels
        self.replicas = make_replicas((devices or jax.local_devices())[: self.most_devices])
        self.num_truncated = 0
        self.use(run)

    @classmethod
    def from_checkpoint(
        cls,
        workdir: PathLike,
        checkpoint: str | int = "default",
        *,
        dtype: DTypeLike | None = None,
        batch_size: int | None = None,
        devices: Sequence[jax.Device] | None = None,
    ) -> Self:
        """Restores a run from its work directory or an export of it, local or gs://.

        Args:
          workdir, checkpoint: as `transformer.restore` takes them.
          dtype: number format of the computation, "float32" or "bfloat16"; None: the run's.
          batch_size: examples that a device computes at once; None: `decoding.batch_size`.
          devices: for a `Translator`, each of them translates sentences of its own; None: all local
            devices. Others compute on the first.

        Raises ValueError if there is no such checkpoint, or no run of a task of this class.
        """
        run = restore(workdir, checkpoint, tasks=cls.tasks, dtype=dtype, batch_size=batch_size)
        return cls(run, devices)

    def use(self, run: Run) -> None:
        """Computes with the parameters of another checkpoint of the same run from now on."""
        self.run, self.params = replace(run, params=None), run.params

    @property
    def params(self) -> Params | None:
        """The parameters on every device, matrices in `model.dtype`; None frees their memory."""
        return self._params

    @params.setter
    def params(self, params: Params | None) -> None:
        self._params = None
        if params is not None:
            on_each = NamedSharding(self.replicas, PartitionSpec())
            self._params = jax.device_put(cast_matrices(params, self.config), on_each)

    @property
    def truncation(self) -> str:
        """What happened to the texts that `num_truncated` counts, as what follows "2 texts"."""
        return f"longer than {self.config.data.row_length} tokens, cut there"

    @staticmethod
    def _each_row(
        results: Iterable[tuple[np.ndarray, jax.Array]],
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (index, result) of each example; results: (indices [B], -1 for none; [B, …])."""
        for indices, result in results:
            leave_if_told()
            values = jax.device_get(result)
            for row in np.flatnonzero(indices >= 0):
                yield int(indices[row]), values[row]

    def identity(self) -> dict[str, Any]:
        """Returns {name: value} of everything of the run on which its outputs depend."""
        values = self.config.values()
        names = ("model.", "data.row_length", "decoding.")
        settings = [
            (setting.name, values[setting.name])
            for setting in self.config.settings()
            if setting.name.startswith(names) and setting.changes_result
        ]
        vocabularies = [tokenizer.to_bytes() for tokenizer in self.tokenizers]
        made_of = settings, vocabularies, self.labels.names, fingerprints(self.params)
        return {"checkpoint": self.run.checkpoint, "model": zlib.crc32(repr(made_of).encode())}

    def __repr__(self) -> str:
        """As "Translator(runs/x, best (600), 1.18M parameters, float32, 1 × cpu)"."""
        devices = self.replicas.devices.ravel()
        facts = [self.run.name, count_parameters(self._params), self.config.model.dtype]
        facts.append(f"{len(devices)} × {devices[0].device_kind}")
        return f"{type(self).__name__}({', '.join(facts)})"
