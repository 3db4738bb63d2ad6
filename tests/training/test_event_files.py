"""What TensorBoard finds in the event files of a run, read back from them."""

import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from tests.helpers.full_disk import no_file_beyond
from transformer.config import Config
from transformer.training.progress import EventFile
from transformer.workdir import WorkDir


def events_of(folder):
    """Every event of the files of a folder."""
    for file in sorted(folder.glob("events.*")):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = Event()
            event.ParseFromString(data[12 : 12 + length])
            yield event
            data = data[16 + length :]


def test_metrics_are_in_groups_beside_samples_and_settings(tmp_path):
    """Catches charts in one heap, samples that nobody sees, and runs without settings."""
    file = EventFile(WorkDir(tmp_path), 0, Config())
    file.add_metrics(5, {"loss": 2.0, "tokens_per_second": 10.0, "epoch": 0.5, "device_hours": 1.0})
    file.add_metrics(5, {"validation_bleu": 12.0, "validation_loss": 3.0})
    file.add_metrics(5, {"test_chrf": 40.0, "num_train_steps": 5})
    file.add_samples(5, ["    a\n    = b\n    > c *d*"])
    file.close()
    values = {v.tag: (v, e.step) for e in events_of(tmp_path) for v in e.summary.value}
    scalars = {tag: v.simple_value for tag, (v, _) in values.items() if v.simple_value}
    assert scalars == {
        "train/loss": 2.0, "system/tokens_per_second": 10.0, "progress/epoch": 0.5,
        "progress/device_hours": 1.0, "validation/bleu": 12.0, "validation/loss": 3.0,
        "test/chrf": 40.0,
    }  # fmt: skip
    samples, step = values["samples/text_summary"]
    assert step == 5 and samples.tensor.string_val == [b"    a\n    = b\n    > c *d*"]
    settings = values["settings/text_summary"][0].tensor.string_val[0]
    assert b"|model.d_model|" in settings


def test_a_resumption_hides_only_what_came_after_its_checkpoint(tmp_path):
    """Catches the report of the step that was restored, hidden; and settings that come twice."""
    EventFile(WorkDir(tmp_path), 30, Config()).close()
    starts = [e for e in events_of(tmp_path) if e.HasField("session_log")]
    assert [start.step for start in starts] == [31]
    assert not [v for e in events_of(tmp_path) for v in e.summary.value]


def test_events_wait_until_there_is_space(tmp_path):
    """Catches tensorboardX's thread, which ends when it cannot write: training then hangs."""
    file = EventFile(WorkDir(tmp_path), 0)
    warned = pytest.warns(UserWarning, match="events for TensorBoard were not written")
    with no_file_beyond(20), warned:
        for step in range(1, 50):
            file.add_metrics(step, {"loss": 2.0})
        file._writer.file_writer.flush()  # as its thread does every 10 seconds
    file.close()
    losses = [event.step for event in events_of(tmp_path) if event.summary.value]
    assert losses == list(range(1, 50))
