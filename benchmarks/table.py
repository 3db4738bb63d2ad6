"""Formats results as a table of plain text."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from tabulate import tabulate
from workload import Workload

from transformer.config import ModelConfig
from transformer.model.costs import training_flops
from transformer.parallel.devices import find_chip

Results = dict[str, dict[str, Any]]  # {contestant: {"seconds" by round, "cpu", "compiles", …}}


def flops(workload: Workload) -> float:
    """Returns the FLOPs of one step of a workload, as train.py counts them for its utilisation."""
    names = "num_layers", "d_model", "d_ff", "num_heads"
    model = ModelConfig(**{name: getattr(workload, name) for name in names})
    lengths = [
        [n] * workload.num_sentences for n in (workload.source_length, workload.target_length)
    ]
    return training_flops(model, workload.vocab_size, *lengths)


def format_table(workload: Workload, results: Results) -> str:
    """Formats the results of `train_step.run`."""
    return align(make_rows(workload, results))


def utilisation(workload: Workload, seconds: float, device_kind: str) -> float | None:
    """Returns the share of its chip's peak that a step uses; None if the chip is not known."""
    chip = find_chip(device_kind)
    return flops(workload) / seconds / (chip.peak_tflops * 1e12) if chip else None


def align(rows: list[Sequence[str]]) -> str:
    """Formats rows, the first of which has the titles, as lines with aligned columns."""
    sides = ["left", *["right"] * (len(rows[0]) - 1)]
    return tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=sides)


def ratio(results: Results, name: str, other: str) -> str:
    """Returns how many times as fast as `other` a contestant is, as text."""
    if other not in results:
        return "–"
    pairs = zip(results[other]["seconds"], results[name]["seconds"], strict=True)
    return f"{median(theirs / ours for theirs, ours in pairs):.2f}"


def make_rows(workload: Workload, results: Results) -> list[Sequence[str]]:
    """Makes the header and a row per contestant."""
    titles = "contestant", "tokens/s", "ms/step", "min–max", "to torch", "to flax", "warm-up"
    rows: list[Sequence[str]] = [(*titles, "compiles", "MFU")]
    for name, result in results.items():
        seconds = median(result["seconds"])
        low, high = (1000 * f(result["seconds"]) for f in (min, max))
        mfu = utilisation(workload, seconds, result["device"])
        row = [
            name,
            f"{workload.target_tokens / seconds:,.0f}",
            f"{1000 * seconds:,.1f}",
            f"{low:,.1f}–{high:,.1f}",
            ratio(results, name, "torch"),
            ratio(results, name, "flax"),
            f"{sum(result['warm_ups']):.1f} s",
            "–" if result["compiles"] is None else str(result["compiles"]),
            f"{mfu:.1%}" if mfu else "–",
        ]
        rows.append(row)
    return rows
