"""What `benchmarks/tpu_compile.py` reads from compiled programs."""

import importlib

import jax
import pytest

PROGRAM = """
%fused (param_0: f32[64,128], param_1: f32[1,128]) -> f32[64,128] {
  %param_0 = f32[64,128]{1,0:T(8,128)} parameter(0)
  %param_1 = f32[1,128]{1,0:T(1,128)S(1)} parameter(1)
  %zero = s32[] constant(0)
  ROOT %update = f32[64,128]{1,0:T(8,128)} dynamic-update-slice(%param_0, %param_1, %zero, %zero)
}

%body (state: (f32[64,128], f32[1,128])) -> (f32[64,128], f32[1,128]) {
  %state = (f32[64,128]{1,0:T(8,128)}, /*index=1*/f32[1,128]{1,0:T(1,128)S(1)}) parameter(0)
  %cache = f32[64,128]{1,0:T(8,128)} get-tuple-element(%state), index=0
  %row = f32[1,128]{1,0:T(1,128)S(1)} get-tuple-element(%state), index=1
  %written = f32[64,128]{1,0:T(8,128)} fusion(%cache, %row), kind=kLoop, calls=%fused, \
metadata={op_name="jit(f)/while/body/layer_3/write"}, backend_config={"estimated_cycles":"7"}
  ROOT %next = (f32[64,128]{1,0:T(8,128)}, f32[1,128]{1,0:T(1,128)S(1)}) tuple(%written, %row)
}

ENTRY %main (p: bf16[2,8,64], cache: f32[64,128], row: f32[1,128]) -> bf16[2,8,64] {
  %p = bf16[2,8,64]{2,1,0:T(8,128)(2,1)} parameter(0)
  %start = (bf16[2,8,64]{2,1,0:T(8,128)(2,1)}, bf16[2,8,64]{2,1,0:T(8,128)(2,1)S(1)}, u32[]) \
copy-start(%p)
  %done = bf16[2,8,64]{2,1,0:T(8,128)(2,1)S(1)} copy-done(%start)
  %cache = f32[64,128]{1,0:T(8,128)} parameter(1)
  %row = f32[1,128]{1,0:T(1,128)S(1)} parameter(2)
  %init = (f32[64,128]{1,0:T(8,128)}, f32[1,128]{1,0:T(1,128)S(1)}) tuple(%cache, %row)
  %loop = (f32[64,128]{1,0:T(8,128)}, f32[1,128]{1,0:T(1,128)S(1)}) while(%init), \
condition=%condition, body=%body
  %sum = bf16[2,8,64]{2,1,0:T(8,128)(2,1)} all-reduce(%done), to_apply=%add, \
metadata={op_name="jit(f)/transpose(jvp(Model))/layer_0/key/dot_general"}
  ROOT %double = bf16[2,8,64]{2,1,0:T(8,128)(2,1)} add(%sum, %sum)
}

%condition (state: (f32[64,128], f32[1,128])) -> pred[] {
  %state = (f32[64,128]{1,0:T(8,128)}, f32[1,128]{1,0:T(1,128)S(1)}) parameter(0)
  %count = s32[] get-tuple-element(%state), index=2
  %six = s32[] constant(6)
  ROOT %less = pred[] compare(%count, %six), direction=LT
}
"""
PADDED = 2 * 8 * 128 * 2  # bytes of a bf16[2,8,64] whose rows are padded to a tile


def test_bytes_are_those_of_main_memory():
    """Catches VMEM taken for main memory, padding left out, a slice taken for its array, and a loop
    that counts once."""
    costs = importlib.import_module("compiled_costs")
    program = costs.CompiledProgram(PROGRAM)
    written = costs.Cost(1, 128 * 4, 7)  # of the cache only one row
    # The copy into VMEM, which is for the sum, reads its source; the sum writes its result.
    summed = costs.Cost(2, 2 * PADDED, 0)
    assert program.step() == {"write": written}
    assert program.by_operation() == {
        "backward key/dot_general": summed,
        "write": costs.Cost(6, 6 * 128 * 4, 6 * 7),  # the loop counts to 6
        "add": costs.Cost(1, 3 * PADDED, 0),
    }


def test_a_slice_that_is_copied_counts_as_what_it_is():
    """Catches a count that charges each quarter of an array with all of it."""
    costs = importlib.import_module("compiled_costs")
    array, part = "f32[64,128]{1,0:T(8,128)}", "f32[16,128]{1,0:T(8,128)S(1)}"
    program = costs.CompiledProgram(
        f"ENTRY %main (p: f32[64,128]) -> f32[16,128] {{\n  %p = {array} parameter(0)\n"
        f"  %start = (({array}), {part}, s32[]) slice-start(%p), slice={{[0:16], [0:128]}}\n"
        f"  ROOT %done = {part} slice-done(%start)\n}}\n"
    )
    assert program.overcounted_bytes() == (64 - 16) * 128 * 4
    assert costs.add_up(*program.by_operation().values()).num_bytes == 16 * 128 * 4


@pytest.mark.long
def test_a_step_of_a_search_moves_at_least_the_least():
    """Catches a search that the benchmark no longer lowers, and weights or caches left out."""
    programs, costs = map(importlib.import_module, ("tpu_programs", "compiled_costs"))
    shape = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2}
    settings = {"tokenizer.vocab_size": 64}
    program = programs.Program(shape, beam_size=4)
    lowered, least = programs.lower_program(program, jax.devices()[:1], settings, "")
    costs = costs.CompiledProgram(lowered.compile().as_text()).step()
    assert 0 < least <= sum(cost.num_bytes for cost in costs.values())


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
