"""Asks the TPU compiler what training steps and searches cost on a slice; no TPU is needed.

python benchmarks/tpu_compile.py --flax_example=FLAX/examples/wmt --json=result.json
python benchmarks/tpu_compile.py --only=base --by_operation --set=model.attention=fused

It needs the extra tpu. FLAX is an unpacked sdist or checkout of flax; without it, its step is left
out. Every figure is the compiler's and of one chip:

TFLOP, GB accessed   its count: loops once, and what lies in the memory within the chip as well; in
                     brackets with slices that are copied there counted as what they are
GB of HBM            operands and results in main memory alone, from the text of the program, loops
                     (scan_layers) as often as they run
est. ms              the sum of its estimates for each operation, on a v5e at 1.5 GHz; collectives
                     and copies between the two memories have none, Pallas kernels a lower bound
temporaries          GB of main memory besides the arguments
collectives          number and MB of their results, by type
lower, compile       seconds; in brackets CPU seconds

Of a search, GB of HBM and ms are those of one step, beside the least that a step must move (the
weights that it uses and both caches, once); the other figures are of the program.
--set changes a setting of ours. --by_operation lists where bytes and milliseconds go.
"""

import argparse
import datetime
import pathlib
import time
from typing import Any

import jax
from collectives import find_collectives
from compiled_costs import CompiledProgram, Costs, add_up
from referee import write_json
from settings import add_settings, read_settings
from table import align
from tpu_programs import PROGRAMS, lower_program

from transformer.parallel.topology import topology_devices

CYCLES_PER_MS = 1.5e6  # of a v5e: 197 TFLOP/s are 4 units of 128 × 128 products at 1.5 GHz
NUM_OPERATIONS = 40  # of --by_operation


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--slice", default="v5e:2x4", help="the TPU slice, as v5litepod-16")
    parser.add_argument("--only", default=",".join(PROGRAMS), help="which of the programs")
    parser.add_argument("--flax_example", help="the folder examples/wmt of a release of flax")
    add_settings(parser)
    parser.add_argument("--by_operation", action="store_true", help="also sums by operation")
    parser.add_argument("--save", help="a folder for the texts of the compiled programs")
    parser.add_argument("--json", help="a file for the results")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - PROGRAMS.keys()
    if unknown:
        parser.error(f"--only must be of {', '.join(PROGRAMS)}, not {', '.join(unknown)}")
    return arguments


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Lowers and compiles one program; returns its figures."""
    program = PROGRAMS[name]
    devices = topology_devices("v5e:1x1" if program.beam_size else arguments.slice)
    settings = read_settings(arguments.set)
    clock = Clock()
    lowered, least = lower_program(program, devices, settings, arguments.flax_example)
    lowering = clock.read()
    compiled = lowered.compile()
    compiling = clock.read()
    memory, cost, text = compiled.memory_analysis(), compiled.cost_analysis(), compiled.as_text()
    if arguments.save:
        (pathlib.Path(arguments.save) / f"{name}.hlo").write_text(text)
    costs = CompiledProgram(text)
    operations = costs.step() if program.beam_size else costs.by_operation()
    total = add_up(*operations.values())
    return {
        "program": name,
        "device": devices[0].device_kind,
        "num_chips": 1 if program.beam_size else len(devices),
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
        "overcounted_bytes": costs.overcounted_bytes(),
        "hbm_bytes": total.num_bytes,
        "least_hbm_bytes": least,
        "cycles": total.cycles,
        "temporary_bytes": memory.temp_size_in_bytes,
        "argument_bytes": memory.argument_size_in_bytes,
        "collectives": find_collectives(text),
        "lower_seconds": lowering,
        "compile_seconds": compiling,
        "operations": operations,
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
    titles = "program", "chips", "TFLOP", "GB accessed", "GB of HBM", "least", "ratio", "est. ms"
    rows = [(*titles, "temporaries", "arguments", "collectives", "lower", "compile")]
    for r in results:
        accessed = r["bytes_accessed"]
        least, moved = r["least_hbm_bytes"], r["hbm_bytes"]
        collectives = [
            f"{n} {kind} {size / 1e6:,.0f}" for kind, (n, size) in r["collectives"].items()
        ]
        rows.append(
            (
                r["program"],
                str(r["num_chips"]),
                f"{r['flops'] / 1e12:,.3f}",
                f"{accessed / 1e9:,.2f} ({(accessed - r['overcounted_bytes']) / 1e9:,.2f})",
                f"{moved / 1e9:,.3f}",
                f"{least / 1e9:,.3f}" if least else "–",
                f"{moved / least:,.2f}" if least else "–",
                format_milliseconds(r["cycles"], r["device"]),
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


def format_milliseconds(cycles: int, device_kind: str) -> str:
    """Returns milliseconds, or "–" for a chip whose clock is not known here."""
    return f"{cycles / CYCLES_PER_MS:,.2f}" if "v5 lite" in device_kind else "–"


def format_operations(operations: Costs, device_kind: str) -> str:
    """Returns the table of the operations that take the most, by bytes or by milliseconds."""
    total = add_up(*operations.values())

    def share(label: str) -> float:
        cost = operations[label]
        shares = cost.num_bytes / total.num_bytes, cost.cycles / max(total.cycles, 1)
        return max(shares)

    rows = [("operation, all layers together", "count", "GB of HBM", "est. ms")]
    for label in sorted(operations, key=share, reverse=True)[:NUM_OPERATIONS]:
        cost = operations[label]
        milliseconds = format_milliseconds(cost.cycles, device_kind)
        rows.append((label, f"{cost.count:,}", f"{cost.num_bytes / 1e9:,.3f}", milliseconds))
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
        if arguments.by_operation:
            print(format_operations(results[-1]["operations"], results[-1]["device"]), flush=True)
        if arguments.json:
            write_json(arguments.json, results)
    print(f"\nall\n{format_results(results)}")


if __name__ == "__main__":
    main()
