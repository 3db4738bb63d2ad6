"""TensorBoard's event files, in a folder or in an object store."""

import json
import textwrap
import warnings
from collections.abc import Mapping, Sequence

from etils import epath
from tensorboardX import SummaryWriter
from tensorboardX.record_writer import register_writer_factory

from transformer.config import Config
from transformer.files.appending import append_bytes
from transformer.files.storage import is_remote
from transformer.workdir import WorkDir

GROUPS = {  # of the names that do not begin with that of a split, and are not of "train"
    "system": ("tokens_per_second", "input_wait", "utilisation", "device_memory_gib"),
    "progress": ("epoch", "seconds", "device_hours", "target_tokens"),
    "": ("num_train_steps", "selection_score"),  # not for TensorBoard
}
SCHEME = "events"  # by which tensorboardX knows that we write its files
NUM_SAMPLES = 8  # per validation


class EventFile:
    """The events of one start of a run: metrics in groups, samples, and the settings.

    num_steps_done: the steps before this start; TensorBoard forgets the events of later ones.
    config: shown as text if it is given.
    """

    def __init__(self, workdir: WorkDir, num_steps_done: int, config: Config | None = None) -> None:
        register_writer_factory(SCHEME, _EventsFactory())
        self._writer = SummaryWriter(
            f"{SCHEME}:{workdir.path}",
            purge_step=num_steps_done + 1,
            write_to_disk=workdir.writes,
            flush_secs=120 if is_remote(workdir.path) else 10,
        )
        if config and not num_steps_done:
            rows = [f"|{name}|{json.dumps(value)}|" for name, value in config.values().items()]
            self._writer.add_text("settings", "\n".join(["|setting|value|", "|-|-|", *rows]), 0)

    def add_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds each metric under its tag."""
        for name, value in metrics.items():
            if tag := tag_of(name):
                self._writer.add_scalar(tag, value, step)

    def add_samples(self, step: int, samples: Sequence[str]) -> None:
        """Adds outputs for the validation set, as they are."""
        text = textwrap.dedent("\n\n".join(samples[:NUM_SAMPLES]))
        self._writer.add_text("samples", textwrap.indent(text, "    "), step)  # Markdown's code

    def close(self) -> None:
        """Writes what was added and ends the writer's thread."""
        self._writer.close()


def tag_of(name: str) -> str:
    """Returns the tag of a metric of metrics.jsonl; "" for what is no metric.

    >>> tag_of("validation_bleu"), tag_of("gradient_norm"), tag_of("input_wait")
    ('validation/bleu', 'train/gradient_norm', 'system/input_wait')
    """
    split, _, rest = name.partition("_")
    if split in ("validation", "test"):
        return f"{split}/{rest}"
    group = next((group for group, names in GROUPS.items() if name in names), "train")
    return group and f"{group}/{name}"


class _Events:
    """The file or object of some events; an object is rewritten whole every two minutes.

    tensorboardX's own writer ends its thread at the first failure, and then training waits for
    that thread for ever.
    """

    def __init__(self, name: str) -> None:
        self._path, self._pending = epath.Path(name.removeprefix(f"{SCHEME}:")), b""

    def write(self, data: bytes) -> None:
        self._pending += data

    def flush(self) -> None:
        try:
            append_bytes(self._path, self._pending)
            self._pending = b""
        except Exception as error:
            warnings.warn(f"the events for TensorBoard were not written: {error}", stacklevel=2)

    close = flush


class _EventsFactory:
    """What tensorboardX asks of a kind of storage."""

    open = _Events

    def directory_check(self, path: str) -> None:
        """Does nothing: the work directory is there, and an object store has none to make."""
