"""What the card says of a compiled program."""

from transformer.cli.startup_summary import collectives_of

PROGRAM = """
  %all-reduce.1 = (f32[512,8]{1,0:T(8,128)}, bf16[16]{0}) all-reduce(%a, %b), channel_id=1
  %ar-start = f32[4]{0} all-reduce-start(%c), channel_id=2
  %ar-done = f32[4]{0} all-reduce-done(%ar-start)
  %ag-start = (f32[2]{0}, f32[8]{0}) all-gather-start(%d), dimensions={0}
  %ag-done = f32[8]{0:T(128)S(1)} all-gather-done(%ag-start)
  ROOT %sum = f32[] add(%all-reduce.1, %ag-done)
"""


def test_collectives_are_counted_once_with_the_bytes_of_their_results():
    """Catches tuples cut at a layout's brackets, and a start and its end counted as two."""
    assert collectives_of(PROGRAM) == {
        "all-reduce": (2, 512 * 8 * 4 + 16 * 2 + 4 * 4),
        "all-gather": (1, 8 * 4),
    }
    assert collectives_of("%x = f32[2]{0} add(%all-reduce, %y)") == {}
