"""What the start-up summary says of a run."""

import numpy as np

from tests.parallel.test_topology import small_config
from transformer.parallel.mapping import make_parallel
from transformer.training.dry_run import make_step_without_data
from transformer.training.startup_summary import (
    Collectives,
    find_collectives,
    parameter_table,
    summary_lines,
)

PROGRAM = """
  %all-reduce.1 = (f32[512,8]{1,0:T(8,128)}, bf16[16]{0}) all-reduce(%a, %b), channel_id=1
  %ar-start = f32[4]{0} all-reduce-start(%c), channel_id=2
  %ar-done = f32[4]{0} all-reduce-done(%ar-start)
  %all-reduce.2 = f32[2]{0} all-reduce(%e), channel_id=1
  %ag-start = (f32[2]{0}, f32[8]{0}) all-gather-start(%d), dimensions={0}
  %ag-done = f32[8]{0:T(128)S(1)} all-gather-done(%ag-start)
  ROOT %sum = f32[] add(%all-reduce.1, %ag-done)
}

%async_collective_fusion.1 (p: f32[2]) -> f32[16] {
  %part.1 = f32[16]{0} all-gather(%p), channel_id=7, dimensions={0}
}

%async_collective_fusion.2 (p: f32[2]) -> f32[16] {
  %part.2 = f32[16]{0} all-gather(%p), channel_id=7, dimensions={0}
}

%all-reduce-scatter.1 (p: bf16[8]) -> bf16[2] {
  %reduced = bf16[8]{0} all-reduce(%p), channel_id=1, to_apply=%add
}
"""


def test_collectives_are_counted_once_with_the_bytes_of_their_results():
    """Catches tuples cut at a layout's brackets, and an asynchronous one counted several times."""
    assert find_collectives(PROGRAM) == {
        "all-reduce bf16+f32": Collectives(1, 512 * 8 * 4 + 16 * 2),
        "all-reduce f32": Collectives(2, 4 * 4 + 2 * 4),
        "all-gather f32": Collectives(2, 8 * 4 + 16 * 4),
        "reduce-scatter bf16": Collectives(1, 8 * 2),
    }
    assert find_collectives("%x = f32[2]{0} add(%all-reduce, %y)") == {}


def test_the_table_of_parameters_adds_up():
    """Catches a share of another whole, and a name that is cut."""
    params = {"decoder": {"kernel": np.zeros((30, 50)), "bias": np.zeros(500)}}
    assert parameter_table(params) == [
        "  decoder/bias      500    500   25.0%",
        "  decoder/kernel  30×50  1,500   75.0%",
        "  all                    2,000  100.0%",
    ]


def test_layers_that_are_alike_share_a_line_of_the_table():
    """Catches a summary that scrolls away, and layers of another shape counted as the same."""
    small, large = ({"bias": np.zeros(size)} for size in (10, 30))
    params = {"decoder": {"layer_0": small, "layer_1": small, "layer_2": large}}
    assert parameter_table(params) == [
        "  decoder/2 layers/bias  10  20   40.0%",
        "  decoder/1 layer/bias   30  30   60.0%",
        "  all                        50  100.0%",
    ]
    assert len(parameter_table(params, every_layer=True)) == 4


def test_a_warm_up_that_is_longer_than_the_run_is_warned_of():
    """Catches a run that somebody shortens, and that never reaches its learning rate."""
    config = small_config()
    step = make_step_without_data(config, make_parallel(config))
    config.optimizer.warmup_steps = config.training.num_train_steps = 1200
    assert not any("warning" in line for line in summary_lines(config, step))
    config.training.num_train_steps = 20
    assert summary_lines(config, step)[-1].startswith("warning     the learning rate rises for 1,2")
