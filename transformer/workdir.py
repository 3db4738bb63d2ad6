"""The work directory of a run: everything it needs and leaves, in a folder that can be moved.

config.json       the configuration
tokenizer.*       the vocabularies
left_out.tsv, held_out.json     pairs left out of the training, or held out for other splits
base.json         of low-rank adapters: the run that they adapt
classes.json      the names of the classes, if there are any
checkpoints/      parameters and optimizer state, by step
metrics.jsonl     a JSON line per report; events.* has the same for TensorBoard
log.txt           what was said, with date and time
environment.json  per start: versions, devices, host, command, commit
samples.txt       outputs for the validation set
results/          scores and outputs of the test set
curves.png        the losses and scores over the steps
skipped_batches.jsonl    batches whose gradients were not finite
lock              locked by the process that trains here
"""

import json
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

from etils import epath

from transformer.config import Config
from transformer.console import escaped
from transformer.files import storage
from transformer.files.appending import GrowingFiles
from transformer.files.reading import read_file, reason_of

FILES_OF_A_FAILED_START = ("lock", "log.txt", "environment.json")
RUN_FILES = re.compile(
    r"(checkpoints|results)/|((source_|target_)?tokenizer|events|config|base|classes|metrics|samples"
    r"|curves|skipped_batches|left_out|held_out|environment|log|lock)(\.|$)"
)
NO_RUN = (
    "{0} is not a work directory: it has no config.json of train.py (--workdir). Of a folder of "
    "Hugging Face or Marian, transformer-import {0} RUN makes one."
)


class WorkDir:
    """Paths and small files of a run; `open_for_training` also locks it.

    path: a folder, or gs://BUCKET/NAME; raises ValueError if that cannot be read.
    writes: False on all hosts but the first; methods that would write then do nothing.
    """

    def __init__(self, path: storage.PathLike, *, writes: bool = True) -> None:
        self.path, self.writes = storage.locate(path), writes
        encoding, is_local = sys.getfilesystemencoding(), not storage.is_remote(self.path)
        if encoding != "utf-8" and is_local and not str(self.path.resolve()).isascii():
            raise ValueError(  # Orbax writes names in UTF-8, so another folder
                f"{escaped(str(path))}: file names are {encoding} in this locale; set PYTHONUTF8=1."
            )
        # What config.json holds: a reader that is given an opened run does not read it again.
        self._known: bytes | None = path._read if isinstance(path, WorkDir) else None
        self._read = self._known
        self._lock: TextIO | None = None  # the open file that is locked
        self._made: list[epath.Path] = []  # the folders that `open_for_training` made, inner first
        self._growing = GrowingFiles(self.path)

    def __truediv__(self, name: str) -> epath.Path:
        return self.path / name

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def checkpoints(self) -> epath.Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def has_run(self) -> bool:
        """Whether the folder holds a run."""
        return (self.path / "config.json").is_file()

    def owns(self, path: storage.PathLike) -> bool:
        """Whether a path is that of a file that a run writes here, whatever it is called by."""
        if storage.is_remote(path) or storage.is_remote(self.path):
            return str(path).startswith(f"{self.path}/")
        here, there = os.path.realpath(self.path), os.path.realpath(path)
        return RUN_FILES.match(os.path.relpath(there, here)) is not None

    def load_config(self) -> Config:
        """Returns the configuration of the run, whose paths are absolute.

        Raises ValueError if the folder holds none.
        """
        file = self.path / "config.json"
        if (content := self._known) is None:
            content = self._read = read_file(file) if self.has_run else b""
        if not self.has_run or b'"model_type"' in content:  # a setting of Hugging Face
            raise ValueError(NO_RUN.format(self.path))
        try:
            return Config.from_json(content.decode())
        except ValueError as error:
            mistakes = str(error).replace("\n", f"\n{file}: ")
            raise ValueError(f"{file}: {mistakes}") from None

    def with_choices(self, config: Config) -> Config:
        """Returns a configuration with what the run has chosen, if the folder holds one."""
        if not self.has_run:
            return config
        chosen = self.load_config().values()
        return config.with_values({name: chosen[name] for name in config.automatic_settings()})

    def is_finished(self, config: Config) -> bool:
        """Whether the folder holds a finished run of `config`.

        Raises ValueError if its configuration differs in a setting that may not change.
        """
        if not self.has_run:
            return False
        self._check_same(config)
        steps = config.training.num_train_steps
        return any(record.get("num_train_steps", 0) >= steps for record in self.read_metrics())

    def open_for_training(self, config: Config) -> None:
        """Creates or reopens the folder, and locks it until `close`.

        Raises ValueError for a folder that cannot be written, in which another process trains, or
        whose run differs from `config` in a setting that may not change on resumption. A folder on
        gs:// is not locked, as a preempted run could not resume: users must see to it that only one
        run at a time trains there.
        """
        try:
            if self.writes and storage.is_remote(self.path):
                (self.path / "write_check").write_bytes(b"")
                (self.path / "write_check").unlink()
            elif self.writes:
                self._made = [path for path in (self.path, *self.path.parents) if not path.exists()]
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock = storage.take_lock(self.path / "lock", "--workdir")
        except OSError as error:
            raise ValueError(
                f"The work directory {self.path} cannot be written ({reason_of(error)}); name "
                f"another with --workdir."
            ) from None
        if self.has_run:
            self._check_same(config)

    def close(self) -> None:
        """Lets other processes train here again; removes a folder in which no run has begun."""
        with suppress(Exception):  # any type: it was said
            self.flush()
        if self._made and not self.has_run:
            for name in FILES_OF_A_FAILED_START:
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):  # there is something else in it
                for folder in self._made:
                    os.rmdir(folder)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def save_config(self, config: Config) -> None:
        """Writes config.json, with absolute paths; from then on the folder `has_run`."""
        self._known = self._read = None
        self._write("config.json", config.with_absolute_paths().to_json())

    def _check_same(self, config: Config) -> None:
        settings = {known.name: known for known in config.settings()}
        config = config.with_absolute_paths()
        differences = {
            f"--config.{name}": f"{name} is {there!r} there, {here!r} here"
            for name, (there, here) in self.load_config().differences(config).items()
            if not settings[name].resumable and not settings[name].is_same(there, here)
        }
        if differences:
            flags = " ".join([*differences][:3]) + " …" * (len(differences) > 3)
            raise ValueError(
                f"{self.path} holds a run with another configuration: "
                f"{'; '.join(differences.values())}. Leave out {flags}, or the --config of a file "
                f"that sets it, to go on with its own, use another --workdir, or start from its "
                f"weights: --config=configs/fine_tune.py:{self.path}"
            )

    def append_metrics(self, record: dict[str, Any]) -> None:
        """Appends a JSON line to metrics.jsonl, with the time."""
        self._append("metrics.jsonl", json.dumps(record | {"time": utc_now()}) + "\n")

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the records of metrics.jsonl, without lines that are damaged or cut short."""
        file = self.path / "metrics.jsonl"
        records: list[dict[str, Any]] = []
        for line in read_file(file).split(b"\n") if file.is_file() else []:
            with suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict) and isinstance(record.get("step"), int):
                    records.append(record)
        return records

    def append_events(self, name: str, events: bytes) -> None:
        """Appends to a file of TensorBoard, together with the next record of metrics."""
        if self.writes:
            self._growing.add(name, events)

    def append_samples(self, step: int, samples: Iterable[str]) -> None:
        """Appends outputs for the validation set to samples.txt, to be read by people."""
        self._append("samples.txt", escaped("\n".join([f"step {step}", *samples, ""])))

    def append_batch(self, step: int, batch: NamedTuple) -> epath.Path:
        """Appends a skipped batch of arrays to skipped_batches.jsonl; returns that file's path."""
        arrays = {name: array.tolist() for name, array in batch._asdict().items()}
        self._append("skipped_batches.jsonl", json.dumps({"step": step, **arrays}) + "\n")
        return self.path / "skipped_batches.jsonl"

    def append_start(self, step: int, environment: dict[str, Any]) -> None:
        """Adds a start of the run, from `step` on, to the list in environment.json."""
        starts = [*self.read_starts(), {"time": utc_now(), "step": step, **environment}]
        self._write("environment.json", json.dumps(starts, indent=2) + "\n")

    def read_starts(self) -> list[dict[str, Any]]:
        """Returns the records of environment.json, one for each start."""
        with suppress(ValueError, OSError):  # damaged, or none yet
            return json.loads((self.path / "environment.json").read_text(encoding="utf-8"))
        return []

    def append_log(self, text: str) -> None:
        """Appends lines to log.txt; an object store gets them with the next record of metrics.

        Raises OSError; the lines come with the next ones.
        """
        if self.writes:
            self._growing.add("log.txt", text)
            if not storage.is_remote(self.path):
                self._growing.flush("log.txt")

    def _append(self, name: str, text: str) -> None:
        if self.writes:
            self._growing.append(name, text)

    def flush(self, *names: str) -> None:
        """Appends to the files of these names, or all, what is pending; raises what still fails."""
        self._growing.flush(*names)

    def forget_metrics_after(self, step: int) -> None:
        """Drops what an interrupted run logged after the checkpoint that it resumes from."""
        lines = [json.dumps(record) for record in self.read_metrics() if record["step"] <= step]
        self._growing.forget("metrics.jsonl")
        self._write("metrics.jsonl", "".join(f"{line}\n" for line in lines))

    def _write(self, name: str, text: str) -> None:
        if self.writes:
            storage.write_atomically(self.path / name, text)


def utc_now() -> str:
    """Returns the time as "2026-11-22T06:31:07Z"."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def split_checkpoint(run: storage.PathLike) -> tuple[str, str]:
    """Returns (path, checkpoint) of "PATH@CHECKPOINT"; the checkpoint is "" if none is named.

    A path that exists is that path. The name of a checkpoint has no slash, comma or "@".
    """
    path = os.fspath(run)
    named = re.fullmatch("(.+)@([^@/,]+)", path)
    return (named[1], named[2]) if named and not storage.locate(path).exists() else (path, "")
