"""A work directory: everything one run needs and leaves, in one folder that can be moved about.

config.json  tokenizer.*  checkpoints/  metrics.jsonl  samples.txt  results/  curves.png
    events.*  lock
"""

import json

from transformer import storage
from transformer.config import Config


class WorkDir:
    """Paths and small files of a run; `open_for_training` also locks it.

    path: a folder, or gs://BUCKET/NAME; ValueError if that cannot be read. writes: False for the
    hosts of a run that leave it to the first: whatever would write does nothing.
    """

    def __init__(self, path, *, writes=True):
        self.path, self.writes = storage.locate(path), writes
        self._lock, self._growing = None, {}

    def __truediv__(self, name):
        return self.path / name

    @property
    def checkpoints(self):
        return self.path / "checkpoints"

    @property
    def has_run(self):
        """Whether a run has begun here."""
        return (self.path / "config.json").is_file()

    def load_config(self):
        """The configuration of the run that is here; ValueError if there is none."""
        file = self.path / "config.json"
        if not self.has_run:
            raise ValueError(
                f"{self.path} is not a work directory: it has no config.json. Name one that "
                f"train.py wrote (--workdir)."
            )
        try:
            return Config.from_json(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None

    def is_finished(self, config):
        """Whether the run that is here came to its end; nothing is written."""
        if not self.has_run:
            return False
        self._check_same(config)
        steps = config.training.num_train_steps
        return any(record.get("num_train_steps", 0) >= steps for record in self.read_metrics())

    def open_for_training(self, config):
        """Creates or reopens the folder, and locks it; an object store has no locks.

        Refuses a folder that cannot be written, that another process trains in, or whose run has
        another configuration than `config`. That nobody else trains in a gs:// one is the user's
        to see to: an owner's name left there would keep out a run that was preempted.
        """
        if self.writes and storage.is_object(self.path):
            storage.check_writable(self.path)
        elif self.writes:
            self._make_and_lock()
        if self.has_run:
            self._check_same(config)

    def save_config(self, config):
        """From here on a run has begun here: `has_run`."""
        self._write("config.json", config.to_json())

    def _make_and_lock(self):
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = storage.take_lock(self.path / "lock", "--workdir")
        except OSError as error:
            raise ValueError(
                f"The work directory {self.path} cannot be written ({error.strerror}); name "
                f"another with --workdir."
            ) from None

    def _check_same(self, config):
        resumable = {setting.name for setting in config.settings() if setting.resumable}
        differences = [
            f"{name}: {there!r}, {here!r}"
            for name, (there, here) in self.load_config().differences(config).items()
            if name not in resumable
        ]
        if differences:
            raise ValueError(
                f"{self.path} holds a run with another configuration (there, here): "
                f"{'; '.join(differences)}. Use the same settings, another --workdir, or start "
                f"from its weights with --config.training.init_from={self.path}."
            )

    def append_metrics(self, record):
        """One JSON line in metrics.jsonl."""
        self._append("metrics.jsonl", json.dumps(record) + "\n")

    def read_metrics(self):
        """The records of metrics.jsonl; a line that a crash cut short is left out."""
        file = self.path / "metrics.jsonl"
        records = []
        for line in file.read_text(encoding="utf-8").split("\n") if file.is_file() else []:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return records

    def append_samples(self, step, samples):
        """Outputs for the validation set, texts for a reader."""
        self._append("samples.txt", "\n".join([f"step {step}", *samples, ""]))

    def append_batch(self, step, batch):
        """The ids of a batch that went wrong, as one JSON line; returns the file's path."""
        arrays = {name: array.tolist() for name, array in batch._asdict().items()}
        self._append("skipped_batches.jsonl", json.dumps({"step": step, **arrays}) + "\n")
        return self.path / "skipped_batches.jsonl"

    def _append(self, name, text):
        path = self.path / name
        if not self.writes:
            return
        if not storage.is_object(path):
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
            return
        if name not in self._growing:
            self._growing[name] = storage.GrowingObject(path)
        self._growing[name].write(text.encode())
        self._growing[name].flush()

    def forget_metrics_after(self, step):
        """Drops what an interrupted run logged beyond the checkpoint from which it goes on."""
        lines = [json.dumps(record) for record in self.read_metrics() if record["step"] <= step]
        self._growing.pop("metrics.jsonl", None)
        text = "".join(line + "\n" for line in lines)
        self._write("metrics.jsonl", text)

    def _write(self, name, text):
        if self.writes:
            storage.write_atomically(self.path / name, text)
