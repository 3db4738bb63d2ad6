"""What `benchmarks/tpu_compile.py` reads from compiled programs."""

import importlib

COLLECTIVES = """
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
    collectives = importlib.import_module("collectives")
    Collectives, find_collectives = collectives.Collectives, collectives.find_collectives
    assert find_collectives(COLLECTIVES) == {
        "all-reduce bf16+f32": Collectives(1, 512 * 8 * 4 + 16 * 2),
        "all-reduce f32": Collectives(2, 4 * 4 + 2 * 4),
        "all-gather f32": Collectives(2, 8 * 4 + 16 * 4),
        "reduce-scatter bf16": Collectives(1, 8 * 2),
    }
    assert find_collectives("%x = f32[2]{0} add(%all-reduce, %y)") == {}
