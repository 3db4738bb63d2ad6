"""Asks the TPU compiler what training steps cost on a slice; no TPU is needed.

python benchmarks/tpu_compile.py --flax_example=FLAX/examples/wmt --json=result.json
python benchmarks/tpu_compile.py --only=base --set=model.attention=fused

It needs the extra tpu. FLAX is an unpacked sdist or checkout of flax; without it, its step is left
out. Every figure is the compiler's and of one chip:

TFLOP, GB accessed   its count: loops once, and what lies in the memory within the chip as well
temporaries          GB of main memory besides the arguments
collectives          number and MB of their results, by type
lower, compile       seconds; in brackets CPU seconds

--set changes a setting of ours.
"""

import argparse
import datetime
import pathlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from collectives import find_collectives
from flax_example import load_train, make_config, make_schedule, make_state, map_train_step
from flax_example import make_batch as make_flax_batch
from referee import write_json
from settings import add_settings, read_settings
from table import align
from workload import BASE, BIG, Workload

from transformer.config import Config
from transformer.parallel.mapping import make_parallel
from transformer.parallel.topology import topology_devices
from transformer.training.startup_summary import make_step_without_data

VOCAB_SIZE, ROWS, ROW_LENGTH = 32_000, 32, 256  # rows of a chip


class Program(NamedTuple):
    """A training step to compile for all chips of a slice."""

    shape: dict[str, int]
    fsdp: int = 1
    is_flax: bool = False


PROGRAMS = {
    "base": Program(BASE),
    "big": Program(BIG),
    "big_fsdp4": Program(BIG, fsdp=4),
    "flax_base": Program(BASE, is_flax=True),
    "flax_big": Program(BIG, is_flax=True),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--slice", default="v5e:2x4", help="the TPU slice, as v5litepod-16")
    parser.add_argument("--only", default=",".join(PROGRAMS), help="which of the programs")
    parser.add_argument("--flax_example", help="the folder examples/wmt of a release of flax")
    add_settings(parser)
    parser.add_argument("--save", help="a folder for the texts of the compiled programs")
    parser.add_argument("--json", help="a file for the results")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - PROGRAMS.keys()
    if unknown:
        parser.error(f"--only must be of {', '.join(PROGRAMS)}, not {', '.join(unknown)}")
    return arguments


def lower_program(
    program: Program, devices: Sequence[jax.Device], settings: dict[str, Any], folder: str
) -> jax.stages.Lowered:
    """Returns the lowered program.

    settings: changes of our Config. folder: of Flax's example.
    """
    if program.is_flax:
        return lower_flax(program, devices, folder)
    config = make_our_config(program, len(devices), settings)
    return make_step_without_data(config, make_parallel(config, devices)).lower()


def make_our_config(program: Program, num_chips: int, settings: dict[str, Any]) -> Config:
    """Returns our configuration, in bfloat16."""
    model = {f"model.{name}": value for name, value in program.shape.items()}
    sizes = {"tokenizer.vocab_size": VOCAB_SIZE, "data.row_length": ROW_LENGTH}
    sizes["mesh.fsdp"] = program.fsdp
    sizes["training.batch_tokens"] = num_chips * ROWS * ROW_LENGTH
    changes = model | sizes | {"model.dtype": "bfloat16"} | settings
    return Config().with_values(changes).validate()


def lower_flax(program: Program, devices: Sequence[jax.Device], folder: str) -> jax.stages.Lowered:
    """Returns the train step of Flax's example over all chips, on rows as long as ours."""
    train = load_train(folder)
    workload = Workload(
        "flax", **program.shape, vocab_size=VOCAB_SIZE, num_sentences=ROWS,
        source_length=ROW_LENGTH, target_length=ROW_LENGTH, device="tpu", dtype="bfloat16",
    )  # fmt: skip
    config = make_config(train.models, workload)
    batch = make_flax_batch(*workload.ids())
    schedule, rng = make_schedule(train), jax.random.key(0)
    state = jax.eval_shape(partial(make_state, train, config, batch, schedule), rng)
    arguments = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((len(devices), *x.shape), x.dtype), (state, batch, rng)
    )
    step = map_train_step(train, config, workload, schedule, devices)
    return step.lower(*arguments[:2], dropout_rng=arguments[2])


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Lowers and compiles one program; returns its figures."""
    program = PROGRAMS[name]
    devices = topology_devices(arguments.slice)
    settings = read_settings(arguments.set)
    clock = Clock()
    lowered = lower_program(program, devices, settings, arguments.flax_example)
    lowering = clock.read()
    compiled = lowered.compile()
    compiling = clock.read()
    memory, cost, text = compiled.memory_analysis(), compiled.cost_analysis(), compiled.as_text()
    if arguments.save:
        (pathlib.Path(arguments.save) / f"{name}.hlo").write_text(text)
    return {
        "program": name,
        "device": devices[0].device_kind,
        "num_chips": len(devices),
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "collectives": find_collectives(text),
        "lower_seconds": lowering,
        "compile_seconds": compiling,
    }


class Clock:
    """Measures (seconds, CPU seconds of all threads) since it was last read."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Returns what has passed, and begins anew."""
        before, self._start = self._start, (time.perf_counter(), time.process_time())
        return self._start[0] - before[0], self._start[1] - before[1]


def format_results(results: list[dict[str, Any]]) -> str:
    """Returns the table of all programs."""
    titles = "program", "chips", "TFLOP", "GB accessed", "temporaries", "arguments", "collectives"
    rows = [(*titles, "lower", "compile")]
    for r in results:
        collectives = [
            f"{n} {kind} {size / 1e6:,.0f}" for kind, (n, size) in r["collectives"].items()
        ]
        rows.append(
            (
                r["program"],
                str(r["num_chips"]),
                f"{r['flops'] / 1e12:,.3f}",
                f"{r['bytes_accessed'] / 1e9:,.2f}",
                f"{r['temporary_bytes'] / 1e9:,.2f}",
                f"{r['argument_bytes'] / 1e9:,.2f}",
                ", ".join(collectives) or "none",
                *(
                    f"{r[key][0]:,.0f} ({r[key][1]:,.0f})"
                    for key in ("lower_seconds", "compile_seconds")
                ),
            )
        )
    return align(rows)


def main() -> None:
    arguments = parse_arguments()
    jax.config.update("jax_enable_compilation_cache", False)
    print(f"{datetime.date.today()}, the TPU compiler's estimates, {arguments.slice}, of one chip")
    results = []
    for name in arguments.only.split(","):
        if PROGRAMS[name].is_flax and not arguments.flax_example:
            print(f"{name} is left out: --flax_example names no folder")
            continue
        results.append(measure(name, arguments))
        print(f"\n{format_results(results[-1:])}", flush=True)
        if arguments.json:
            write_json(arguments.json, results)
    print(f"\nall\n{format_results(results)}")


if __name__ == "__main__":
    main()
