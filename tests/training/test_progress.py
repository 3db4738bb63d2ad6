"""What is shown and logged of a run."""

import io

import pytest

from tests.helpers.terminal import Terminal
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


def test_a_host_that_does_not_write_logs_nothing(tmp_path, capsys):
    """Catches every host of a run writing its own events and lines, or reporting them."""
    progress = Progress(WorkDir(tmp_path, writes=False), 100, 0, on_report=pytest.fail)
    progress.show(10, METRICS)
    progress.log(10, METRICS)
    progress.close()
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr().err == ""
