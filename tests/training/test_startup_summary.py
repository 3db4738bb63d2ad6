"""What the start-up summary says of a run."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.parallel.test_topology import SMALL
from transformer.config import Config
from transformer.model.costs import StepCost
from transformer.parallel.mapping import make_parallel
from transformer.registry import TASKS
from transformer.training.startup_summary import (
    estimate_lines,
    make_step_without_data,
    parameter_table,
    summary_lines,
)


def test_the_table_of_parameters_adds_up_and_layers_that_are_alike_share_a_line():
    """Catches a share of another whole, a name that is cut, a summary that scrolls away, and layers
    of another shape counted as the same."""
    small, large = ({"bias": np.zeros(size)} for size in (100, 300))
    layers = {"layer_0": small, "layer_1": small, "layer_2": large}
    assert parameter_table({"decoder": {"kernel": np.zeros((30, 50)), **layers}}) == [
        "  decoder/kernel         30×50  1,500   75.0%",
        "  decoder/2 layers/bias    100    200   10.0%",
        "  decoder/1 layer/bias     300    300   15.0%",
        "  all                           2,000  100.0%",
    ]


def test_a_warm_up_that_is_longer_than_the_run_is_warned_of():
    """Catches a run that somebody shortens, and that never reaches its learning rate."""
    config = Config().with_values(SMALL)
    step = make_step_without_data(config, make_parallel(config))
    config.optimizer.warmup_steps = config.training.num_train_steps = 1200
    assert not any("warning" in line for line in summary_lines(config, step, None))
    config.training.num_train_steps = 20
    warning = summary_lines(config, step, None)[-1]
    assert warning.startswith("warning     the learning rate rises for 1,2")


def devices(kind, platform, *coordinates):
    """Devices as JAX describes them: several cores of a TPU's chip have the same coordinates."""
    about = dict(device_kind=kind, platform=platform)
    return [SimpleNamespace(coords=coords, id=i, **about) for i, coords in enumerate(coordinates)]


def test_hours_count_chips_and_not_cores_and_only_what_is_known():
    """Catches chip-hours twice too many where JAX counts two devices on a chip, as on a v3, GPUs,
    which have no coordinates, counted as one, a CPU's time by the peak of another device, and a
    crash for a task without costs."""
    cost = StepCost(49.2e12, 1)
    # 2 chips of 123 TFLOP/s: at 20%, a step of 49.2 TFLOP takes a second.
    lines = estimate_lines(cost, 7200, devices("TPU v3", "tpu", *"aabb"))
    assert lines[0].endswith("7,200 steps of 49,200.0 GFLOP, on 2 chips of 123 TFLOP/s:")
    assert lines[1].strip() == "at 20% of peak: 1,000.0 ms per step, 2 h 00 min, 4.0 chip-hours"
    gpus = devices("NVIDIA H100 80GB HBM3", "gpu", *"aaaaaaaa")
    assert "on 8 chips of 989 TFLOP/s" in estimate_lines(cost, 10, gpus)[0]
    assert estimate_lines(cost, 10, devices("cpu", "cpu", "a")) == []
    (line,) = estimate_lines(cost, 10, devices("gpu", "gpu", "a"))
    assert line == "estimate    none: the peak of gpu or the cost of a step is not known"
    (line,) = estimate_lines(None, 10, devices("TPU v4", "tpu", "a"))
    assert line.startswith("estimate    none")


@pytest.mark.parametrize(
    ("task", "share_of_targets"), [("translation", 1), ("language_model", 1), ("masked_lm", 0.15)]
)
def test_cost_without_data_is_that_of_full_rows(task, share_of_targets):
    """Catches hours that are estimated for half of a batch, the source alone, or unused scores."""
    config = Config().with_values(SMALL)
    config.task = task
    _, batch = TASKS[task].model_and_blank_batch(config)
    cost, rows = TASKS[task].cost_without_data(config), batch[0].shape[0]
    assert cost.num_targets == pytest.approx(share_of_targets * rows * config.data.row_length)
    # 2 FLOPs forward and 4 backward for each weight that a token meets, and some for attention.
    of_layers = (4 * 64 * 64 + 2 * 64 * 128) * (2.5 if task == "translation" else 1)
    weights = share_of_targets * 64 * 512 + of_layers
    expected = 6 * weights * rows * config.data.row_length
    assert expected < cost.flops < 1.3 * expected
