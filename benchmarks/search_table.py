"""Formats the results of searches as tables of plain text."""

from statistics import median
from typing import Any

from table import align, ratio

OTHERS = "ctranslate2", "ctranslate2_int8"


def format_searches(results: dict[str, dict[str, Any]], count: int, unit: str) -> str:
    """Formats the results {contestant: {"seconds", …}} of one search over `count` units."""
    shown = sorted({column for result in results.values() for column in result["show"]})
    others = [name for name in OTHERS if name in results]
    ratios = [f"to {name}" for name in others]
    titles = "contestant", f"{unit}/s", "s", "min–max", "CPU s", *ratios, *shown
    rows = [(*titles, "first pass", "compiles")]
    for name, result in results.items():
        seconds = result["seconds"]
        rows.append(
            (
                name,
                f"{count / median(seconds):,.0f}",
                f"{median(seconds):,.3f}",
                f"{min(seconds):,.3f}–{max(seconds):,.3f}",
                f"{median(result['cpu']):,.2f}",
                *(ratio(results, name, other) for other in others),
                *(result["show"].get(column, "–") for column in shown),
                # A contestant with a note tried batch sizes in its first pass.
                "–" if result["note"] else f"{result['first']:.1f} s",
                "–" if result["compiles"] is None else str(result["compiles"]),
            )
        )
    return align(rows)
