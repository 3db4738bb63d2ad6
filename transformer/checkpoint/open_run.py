"""Opens the checkpoints of a run for reading, adapters together with the base that they adapt."""

import json
import zlib

import jax
import numpy as np

from transformer.checkpoint.checkpoints import Checkpoints, Loaded
from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.train_state import Params, merge
from transformer.config import Config
from transformer.files.storage import absolute, write_atomically
from transformer.workdir import WorkDir

BASE_FILE = "base.json"  # in the work directory of adapters: which parameters they adapt


def open_for_reading(run: WorkDir, config: Config) -> Checkpoints:
    """Opens the checkpoints of a run for restoring only; `config` is what it was trained with."""
    kind = AdapterCheckpoints if config.training.lora_rank else Checkpoints
    keep = config.training.keep_checkpoints
    return kind(run.checkpoints, keep=keep, read_only=True)


class AdapterCheckpoints(Checkpoints):
    """Checkpoints of adapters, which are restored as the parameters of the adapted model."""

    def load(self, name: str | int, num_averaged: int = 1) -> Loaded:
        self._base = load_base(WorkDir(self.folder.parent))  # its errors are of no one checkpoint
        return super().load(name, num_averaged)

    def restore_params(self, step: int) -> Params:
        return jax.device_get(merge(self._base, super().restore_params(step)))


def load_checkpoint(workdir: WorkDir, config: Config, checkpoint: str | int) -> Loaded:
    """Loads a checkpoint of a run by its name; `config` is the run's."""
    num_averaged = config.decoding.average_checkpoints
    return open_for_reading(workdir, config).load(checkpoint, num_averaged)


def load_default(workdir: WorkDir) -> Loaded:
    """Loads the default checkpoint of a run."""
    return load_checkpoint(workdir, workdir.load_config(), "default")


def choose_base(workdir: WorkDir, init_from: str) -> Params:
    """Loads the parameters of the run `init_from`, and notes in `workdir` that it adapts them."""
    base = WorkDir(init_from)
    loaded = load_default(base)
    about = {
        "base": str(absolute(base.path)),
        "checkpoint": loaded.name,
        "checksum": _checksum(loaded.params),
    }
    if workdir.writes:
        write_atomically(workdir / BASE_FILE, json.dumps(about, indent=2) + "\n")
    return loaded.params


def load_base(workdir: WorkDir) -> Params:
    """Loads the parameters that the adapters in `workdir` adapt.

    Raises ValueError if the base is not where it was, or is no longer what it was.
    """
    file = workdir / BASE_FILE
    about = json.loads(file.read_text(encoding="utf-8"))
    base = WorkDir(about["base"])
    if not base.has_run:
        raise ValueError(
            f"{workdir.path} holds adapters of the run {base.path}, which is not there; put it "
            f'back, or name its new folder as "base" in {file}.'
        )
    loaded = load_default(base)
    if _checksum(loaded.params) != about["checksum"]:
        raise ValueError(
            f"{workdir.path} holds adapters of {about['checkpoint']} of {base.path}, whose default "
            f"checkpoint is now {loaded.name} with other parameters; put back the former one."
        )
    return loaded.params


def _checksum(params: Params) -> int:
    return zlib.crc32(np.array(fingerprints(params), np.uint32).tobytes())
