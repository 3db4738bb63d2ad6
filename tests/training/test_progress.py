"""What is shown and logged of a run."""

import io

import pytest

from tests.helpers.terminal import Terminal
from transformer.evaluation import plots
from transformer.training.progress import Progress
from transformer.workdir import WorkDir

METRICS = {
    "loss": 3.0, "learning_rate": 1e-3, "tokens_per_second": 1234.5, "input_wait": 0.0,
    "skipped": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(("stream", "num_lines"), [(Terminal(), 0), (io.StringIO(), 3)])
def test_a_terminal_gets_one_live_line_and_a_file_plain_lines(stream, num_lines, tmp_path):
    """Catches a log file full of escape sequences, and a terminal that scrolls."""
    progress = Progress(WorkDir(tmp_path), 100, 0, stream=stream)
    for step in (10, 20, 30):
        progress.show(step, METRICS)
    assert stream.getvalue().count("\n") == num_lines
    progress.say("done")
    assert stream.getvalue().endswith("\ndone\n")
    assert "\x1b" not in stream.getvalue() or stream.isatty()
    assert "30/100" in stream.getvalue()
    progress.close()


def test_the_time_left_leaves_out_what_came_before_the_first_line(tmp_path):
    """Catches an estimate that counts compilation, or the steps before a resumption."""
    now, stream = [0.0], io.StringIO()
    progress = Progress(WorkDir(tmp_path), 100, 10, stream=stream, clock=lambda: now[0])
    for step, now[0] in ((20, 500.0), (30, 520.0)):
        progress.show(step, METRICS)
    progress.close()
    first, second = stream.getvalue().splitlines()
    assert "left" not in first
    assert second.endswith("2 min 20 s left")  # 70 steps of 2 s


def test_a_slow_step_is_shown_between_two_reports(tmp_path):
    """Catches minutes of silence until the next report, and a log that fills with such lines."""
    now, terminal, logged = [0.0], Terminal(), []
    progress = Progress(WorkDir(tmp_path), 100, 0, stream=terminal, clock=lambda: now[0])
    progress._line.log = logged.append
    progress.show(10, METRICS)
    assert not progress.is_due
    now[0] = 1.0
    assert progress.is_due
    progress.show(11, METRICS, is_passing=True)
    assert "11/100" in terminal.row() and not progress.is_due
    assert len(logged) == 1
    file = Progress(WorkDir(tmp_path), 100, 0, stream=io.StringIO(), clock=lambda: now[0])
    now[0] = 9.0
    assert progress.is_due and not file.is_due
    for each in (progress, file):
        each.close()


def test_curves_are_drawn_while_training_as_time_allows(tmp_path, monkeypatch):
    """Catches curves that come with the end alone, that slow training down, or that end it."""
    now, drawn = [0.0], []

    def draw(records, path, title):
        drawn.append(now[0])
        now[0] += 2.0
        raise OSError("disk full")

    monkeypatch.setattr(plots, "plot_curves", draw)
    stream = io.StringIO()
    progress = Progress(WorkDir(tmp_path), 100, 0, stream=stream, clock=lambda: now[0])
    for now[0] in (10.0, 100.0, 200.0, 203.0):
        progress.draw_curves()
    assert drawn == [100.0, 203.0] and stream.getvalue() == ""
    progress.draw_curves(is_last=True)
    assert len(drawn) == 3 and stream.getvalue() == "curves.png was not drawn: disk full\n"
    progress.close()


def test_a_host_that_does_not_write_logs_nothing(tmp_path, capsys):
    """Catches every host of a run writing its own events and lines, or reporting them."""
    progress = Progress(WorkDir(tmp_path, writes=False), 100, 0, on_report=pytest.fail)
    progress.show(10, METRICS)
    progress.log(10, METRICS)
    progress.close()
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err == ""
