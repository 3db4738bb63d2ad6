"""Means, speeds and counts of training steps, by a clock that the tests set."""

import jax
import pytest

from transformer.model.costs import StepCost
from transformer.training import meter as meter_module
from transformer.training.meter import MAX_IN_FLIGHT, Meter


def sums(tokens, loss):
    """The sums of a step of `tokens` targets whose mean loss is `loss`."""
    total = loss * tokens
    return dict(loss=total, nll=total, tokens=tokens, gradient_norm=2.0, skipped=0)


@pytest.fixture
def now():
    """The seconds of a clock."""
    return [100.0]


@pytest.fixture
def meter(now, monkeypatch):
    monkeypatch.setattr(meter_module, "peak_flops", lambda devices: 1e4)
    return Meter(StepCost(100.0, 2), clock=lambda: now[0])


def test_means_are_weighted_by_tokens_and_start_anew_after_a_reading(meter, now):
    """Catches a mean of the steps' means (2.0), and a step that is forgotten (1.0 or 3.0)."""
    for loss, steps in ((1.5, [(30, 1.0), (10, 3.0)]), (7.0, [(5, 7.0)])):
        for number, step in enumerate(steps):
            meter.add(number, sums(*step))
        now[0] += 1
        metrics = meter.read()
        assert metrics["loss"] == pytest.approx(loss)
        assert metrics["gradient_norm"] == pytest.approx(2.0)


def test_a_pause_does_not_count_for_the_speed_and_waiting_for_data_is_a_share(meter, now):
    """Catches evaluations that lower the speed, a pause that is subtracted twice, and a share that
    adds up over readings or counts the device's work."""
    now[0] += 2
    meter.add(1, sums(10, 1.0))
    with meter.paused():
        now[0] += 30
    assert meter.read()["tokens_per_second"] == pytest.approx(5)
    meter.add(2, sums(10, 1.0))
    with meter.waiting():
        now[0] += 1
    now[0] += 3
    metrics = meter.read()
    assert metrics["tokens_per_second"] == pytest.approx(2.5)
    assert metrics["input_wait"] == pytest.approx(0.25)
    now[0] += 1
    assert meter.read()["input_wait"] == 0.0


def test_skipped_updates_are_counted_and_do_not_spoil_the_means(meter, now):
    """Catches one NaN that makes all later figures NaN, and a count that forgets to start anew."""
    skipped = dict.fromkeys(sums(1, 1.0), 0) | {"skipped": 1}
    for step, values in enumerate((sums(10, 1.0), skipped, skipped, sums(10, 3.0), skipped), 1):
        meter.add(step, values)
    now[0] += 1
    metrics = meter.read()
    assert metrics["loss"] == metrics["gradient_norm"] == pytest.approx(2.0)
    assert metrics["skipped"] == 3
    assert (meter.num_skipped_in_a_row, meter.skipped_steps) == (1, [2, 3, 5])


def test_sums_are_read_late(meter, now):
    """Catches a loop that waits for each step: the newest sums must not be fetched by `add`; and a
    live line between two reports that takes steps from the next report."""
    for step in range(1, 5):
        meter.add(step, sums(10, float(step)))
    now[0] += 1
    assert MAX_IN_FLIGHT == 2
    assert meter.peek()["loss"] == pytest.approx(1.5)  # of the two that are no longer in flight
    assert meter.peek()["gradient_norm"] == pytest.approx(2.0)
    assert meter.read()["loss"] == pytest.approx(2.5)


def test_totals_go_on_from_those_of_a_checkpoint(now):
    """Catches a resumption that begins to count anew, and device-hours of one device only."""
    before = {"seconds": 100.0, "device_hours": 0.5, "target_tokens": 7}
    meter = Meter(trained=before, clock=lambda: now[0])
    meter.add(1, sums(10, 1.0))
    meter.settle()
    now[0] += 900
    hours = 0.5 + jax.device_count() / 4
    assert meter.trained() == {"seconds": 1000.0, "device_hours": hours, "target_tokens": 17}


def test_utilisation_is_the_models_arithmetic_over_the_peak_or_left_out(meter, now):
    """Catches tokens of padding or of the source in the arithmetic (10 · 50 of 1e4 FLOP/s), a
    utilisation of 0 or infinity, and a perplexity of a loss that is in no nats."""
    meter.add(1, sums(10, 1.0))
    now[0] += 1
    assert meter.read()["utilisation"] == pytest.approx(0.05)
    meter = Meter(clock=lambda: now[0])
    now[0] += 1
    meter.add(1, {name: value for name, value in sums(10, 1.0).items() if name != "nll"})
    assert not meter.read().keys() & {"utilisation", "perplexity"}
