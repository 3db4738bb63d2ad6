"""What is shown and logged of a run."""

import io
import time

import pytest

from transformer.console import format_seconds
from transformer.train.progress import MAX_IN_FLIGHT, Meter, Progress
from transformer.workdir import WorkDir

STEP = {"loss": 3.0, "learning_rate": 1e-3, "tokens_per_second": 1234.5}
STEP |= {"input_wait": 0.0, "skipped": 0.0}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def sums(tokens, loss):
    return {
        "loss": loss * tokens, "nll": loss * tokens, "tokens": tokens, "gradient_norm": 2.0,
        "skipped": 0,
    }  # fmt: skip


def test_means_are_weighted_by_tokens_and_start_anew_after_a_reading():
    """A mean of the steps' means would give 2.0; a forgotten step would give 1.0 or 3.0."""
    meter = Meter(0)
    meter.add(1, sums(30, 1.0))
    meter.add(2, sums(10, 3.0))
    metrics = meter.read(2)
    assert metrics["loss"] == pytest.approx(1.5)
    assert metrics["gradient_norm"] == pytest.approx(2.0)
    meter.add(3, sums(5, 7.0))
    assert meter.read(3)["loss"] == pytest.approx(7.0)


def test_time_spent_elsewhere_does_not_count_for_the_pace():
    meter = Meter(0)
    meter.add(1, sums(10, 1.0))
    with meter.paused():
        time.sleep(0.3)
    assert meter.read(1)["tokens_per_second"] > 10 / 0.2


def test_time_spent_waiting_for_data_is_told_as_a_share():
    meter = Meter(0)
    meter.add(1, sums(10, 1.0))
    with meter.waiting():
        time.sleep(0.2)
    assert 0.5 < meter.read(1)["input_wait"] <= 1.0
    meter.add(2, sums(10, 1.0))
    assert meter.read(2)["input_wait"] == 0.0


def test_skipped_updates_are_counted_and_do_not_spoil_the_means():
    """Catches one NaN that makes all later figures NaN, and a count that forgets to start anew."""
    skipped = dict.fromkeys(sums(1, 1.0), 0) | {"skipped": 1}
    meter = Meter(0)
    for step, values in enumerate((sums(10, 1.0), skipped, skipped, sums(10, 3.0), skipped), 1):
        meter.add(step, values)
    metrics = meter.read(5)
    assert metrics["loss"] == pytest.approx(2.0)
    assert metrics["skipped"] == 3
    assert meter.skipped == [2, 3, 5]
    assert meter.num_skipped_in_a_row == 1


def test_sums_are_read_late():
    """Catches a loop that waits for each step: the newest sums must not be fetched by `add`."""

    class Unfinished:
        def __float__(self):
            raise AssertionError("the device has been waited for")

    meter = Meter(0)
    for step in range(1, MAX_IN_FLIGHT + 1):
        meter.add(step, {"loss": Unfinished()})


def test_utilisation_is_the_models_arithmetic_over_the_peak():
    meter = Meter(0, flops_per_token=50.0, peak_flops=1e4)
    meter.add(1, sums(10, 1.0))
    metrics = meter.read(1)
    assert metrics["utilisation"] == pytest.approx(metrics["tokens_per_second"] * 50 / 1e4)


def test_a_terminal_gets_one_live_line_and_a_file_plain_lines(tmp_path):
    for stream, count in ((Terminal(), 0), (io.StringIO(), 3)):
        progress = Progress(WorkDir(tmp_path), 100, 0, stream)
        for step in (10, 20, 30):
            progress.show(step, STEP)
        assert stream.getvalue().count("\n") == count
        progress.say("done")
        assert stream.getvalue().endswith("\ndone\n")
        assert "\x1b" not in stream.getvalue() or stream.isatty()
        progress.close()
    assert "30/100" in stream.getvalue()
    assert "left" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9, "9 s"), (75, "1 min 15 s"), (3725, "1 h 02 min"), (3599.6, "1 h 00 min")],
)
def test_durations_read_well(seconds, text):
    assert format_seconds(seconds) == text
