"""What is shown and logged of a run."""

import io
import struct

import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from tests.helpers.full_disk import no_file_beyond
from tests.helpers.terminal import Terminal
from transformer import console
from transformer.config import Config
from transformer.evaluation import plots
from transformer.training.progress import Progress
from transformer.workdir import WorkDir

CONFIG = Config().with_values({"training.num_train_steps": 100})
NAMES = "loss", "learning_rate", "tokens_per_second", "input_wait", "skipped"
METRICS = dict(zip(NAMES, (3.0, 1e-3, 1234.5, 0.0, 0.0), strict=True))


@pytest.fixture
def now():
    """The seconds of a clock."""
    return [0.0]


@pytest.fixture
def make_progress(tmp_path, monkeypatch, now):
    def make(stream, step=0):
        line = {"_given_stream": stream, "clock": lambda: now[0], "_last": now[0]}
        for name, value in line.items():
            monkeypatch.setattr(console.live_line, name, value)
        return Progress(WorkDir(tmp_path), CONFIG, step)

    return make


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_a_terminal_gets_one_live_line_and_a_file_plain_lines(stream, make_progress, now):
    """Catches a log file full of escape sequences, a terminal that scrolls, and an estimate that
    counts compilation, or the steps before a resumption."""
    progress = make_progress(stream, 10)
    for step, now[0] in ((20, 500.0), (30, 520.0)):
        progress.show(step, METRICS)
    progress.close()
    shown = stream.getvalue().rstrip()
    first, _, second = shown.partition("30/100")
    assert "left" not in first and second.endswith("2 min 20 s left")  # 70 steps of 2 s
    assert stream.isatty() or (shown.count("\n") == 1 and "\x1b" not in shown)


def test_a_slow_step_is_shown_between_two_reports(make_progress, now):
    """Catches minutes of silence until the next report, and a log that fills with such lines."""
    terminal, logged = Terminal(), []
    progress = make_progress(terminal)
    progress._line.log = logged.append
    progress.show(10, METRICS)
    assert not console.live_line.is_due
    now[0] = 1.0
    assert console.live_line.is_due
    progress.show(11, METRICS, is_passing=True)
    assert "11/100" in terminal.row() and not console.live_line.is_due
    assert len(logged) == 1


def test_curves_are_drawn_while_training_as_time_allows(make_progress, now, monkeypatch):
    """Catches curves that come with the end alone, that slow training down, or that end it."""
    drawn, stream = [], io.StringIO()

    def draw(records, path, title):
        drawn.append(now[0])
        now[0] += 2.0
        raise OSError("disk full")

    monkeypatch.setattr(plots, "plot_curves", draw)
    progress = make_progress(stream)
    for now[0] in (10.0, 100.0, 160.0, 203.0):
        progress.draw_curves()
    assert drawn == [100.0, 203.0] and stream.getvalue() == ""
    progress.draw_curves(is_last=True)
    assert len(drawn) == 3 and stream.getvalue() == "curves.png was not drawn: disk full\n"


def events_of(folder):
    for file in sorted(folder.glob("events.*")):
        data = file.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event, end = Event(), 12 + length
            event.ParseFromString(data[12:end])
            for content, checksum in (data[:8], data[8:12]), (data[12:end], data[end : end + 4]):
                assert struct.pack("<I", masked_crc32c(content)) == checksum
            yield event
            data = data[end + 4 :]


def test_metrics_are_in_groups_beside_samples_and_settings(tmp_path):
    """Catches charts in one heap, samples that nobody sees, and runs without settings."""
    progress = Progress(WorkDir(tmp_path), CONFIG)
    progress.log_samples(5, ["    a\n    = b\n    > c *d*"])
    progress.log(5, {"loss": 2.0, "tokens_per_second": 10.0, "epoch": 0.5, "device_hours": 1.0})
    progress.log(5, {"validation_bleu": 12.0, "validation_loss": 3.0})
    progress.log(5, {"test_chrf": 40.0, "num_train_steps": 5})  # and is in the file at once
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
    Progress(WorkDir(tmp_path), CONFIG, 30).close()
    events = list(events_of(tmp_path))
    assert [event.step for event in events if event.HasField("session_log")] == [31]
    assert not [value for event in events for value in event.summary.value]


def test_events_wait_until_there_is_space(tmp_path, capsys):
    """Catches events that are lost, or written by halves, while the disk is full."""
    progress = Progress(WorkDir(tmp_path), CONFIG)
    with no_file_beyond(20):
        for step in range(1, 50):
            progress.log(step, {"loss": 2.0})
    progress.close()
    assert capsys.readouterr().err.count("cannot be written to") == 1
    losses = [e.step for e in events_of(tmp_path) for v in e.summary.value if v.simple_value]
    assert losses == list(range(1, 50))
