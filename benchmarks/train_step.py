"""Times one training step against PyTorch's nn.Transformer and Flax's WMT example.

python benchmarks/train_step.py --torch_python=PYTHON --flax_example=FLAX/examples/wmt
python benchmarks/train_step.py --device=gpu --flax_example=FLAX/examples/wmt --json=result.json

PYTHON is a Python that has torch (default: this one); FLAX an unpacked sdist or checkout of flax. A
contestant that is not installed is skipped with a message.

Each contestant runs in a process of its own, with the same sizes and the same batch; `ours.py`,
`torch_transformer.py` and `flax_example.py` describe them. In every round each does a number of
steps while the others wait, and another one begins; two steps before the rounds, which include
compiling, are the warm-up and not measured. Seconds are medians over the rounds; a ratio is the
median of the rounds' ratios, and above 1 means faster than that system.

The others also apply dropout to attention weights and within the feed-forward layer, which the
paper does not. With --paper_dropout torch does neither, and Flax's example only the second, which
is fixed in its model.
"""

import argparse
import dataclasses
import pathlib
import sys
from typing import Any

from referee import Contestant, begin_report, check_device, measure, start_workers, write_json
from settings import add_settings, read_settings
from table import flops, format_table
from workload import WORKLOADS, Workload

WARM_UPS = [{"times": 1}] * 2  # JAX may compile anew for its own output


def run(
    workload: Workload, contestants: dict[str, Contestant], num_rounds: int, num_steps: int
) -> dict[str, dict[str, Any]]:
    """Returns {name: {"seconds" (per step, by round), "compiles", "warm_ups", "versions", …}}."""
    workers, ready = start_workers(workload, contestants, WARM_UPS)
    results = measure(workers, num_rounds, {"times": num_steps})
    for worker in workers.values():
        worker.close()
    return {name: ready[name] | result for name, result in results.items()}


def describe(workload: Workload) -> str:
    """Returns the sizes on one line."""
    w = workload
    cores = f", {w.num_threads} threads" if w.device == "cpu" else ""
    return (
        f"{w.name}: {w.num_layers}+{w.num_layers} layers, d_model {w.d_model}, d_ff {w.d_ff}, "
        f"{w.num_heads} heads, vocabulary {w.vocab_size:,}; {w.num_sentences} sentences of "
        f"{w.source_length} + {w.target_length} tokens; {w.dtype}{cores}"
    )


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--device", choices=list(WORKLOADS), default="cpu")
    parser.add_argument("--shape", help="one of the device's shapes (default: all of them)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3, help="steps of each contestant in a round")
    parser.add_argument("--threads", type=int, default=2, help="threads on a CPU")
    parser.add_argument("--torch_python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--flax_example", help="the folder examples/wmt of a release of flax")
    add_settings(parser)
    parser.add_argument("--paper_dropout", action="store_true", help="dropout as in the paper")
    parser.add_argument("--json", help="a file for the results of every round")
    arguments = parser.parse_args()
    names = [workload.name for workload in WORKLOADS[arguments.device]]
    if arguments.shape not in (None, *names):
        parser.error(f"--shape must be one of {', '.join(names)}, not {arguments.shape}")
    check_device(parser, arguments.device)
    folder = arguments.flax_example
    if folder and not all((pathlib.Path(folder) / f).exists() for f in ("train.py", "models.py")):
        parser.error(f"--flax_example must be a folder with train.py and models.py, not {folder}")
    if min(arguments.rounds, arguments.steps, arguments.threads) < 1:
        parser.error("--rounds, --steps and --threads must be at least 1")
    return arguments


def name_contestants(arguments: argparse.Namespace) -> dict[str, Contestant]:
    """Returns the contestants by name."""
    settings = read_settings(arguments.set)
    contestants = {
        "ours": (sys.executable, "ours", {"settings": settings}),
        "torch": (arguments.torch_python, "torch_transformer", {}),
    }
    if arguments.device == "cpu":  # the same update; micro-batches fit a CPU's caches
        parts = {"settings": settings | {"training.accumulate_steps": 4}}
        contestants["ours in 4 micro-batches"] = (sys.executable, "ours", parts)
    if arguments.flax_example:
        folder = {"folder": str(pathlib.Path(arguments.flax_example).resolve())}
        contestants["flax"] = (sys.executable, "flax_example", folder)
    else:
        print("flax is skipped: --flax_example names no folder")
    return contestants


def main() -> None:
    arguments = parse_arguments()
    contestants = name_contestants(arguments)
    report = begin_report(arguments) | {"shapes": []}
    for workload in WORKLOADS[arguments.device]:
        if arguments.shape not in (None, workload.name):
            continue
        workload = dataclasses.replace(
            workload, num_threads=arguments.threads, paper_dropout=arguments.paper_dropout
        )
        results = run(workload, contestants, arguments.rounds, arguments.steps)
        versions = {k: v for result in results.values() for k, v in result["versions"].items()}
        print(f"\n{describe(workload)}; {', '.join(map(' '.join, versions.items()))}")
        print(format_table(workload, results), flush=True)
        shape = {"workload": dataclasses.asdict(workload), "results": results}
        report["shapes"].append(shape | {"flops": flops(workload)})
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
