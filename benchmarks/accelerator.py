"""Measures on one accelerator, in a given time, everything that has no figure yet.

python benchmarks/accelerator.py --flax_example=FLAX/examples/wmt
python benchmarks/accelerator.py --device=tpu --minutes=60
python benchmarks/accelerator.py --device=cpu --small

Parts: a training step of base and big (ours, PyTorch compiled and with fused attention, Flax's
example; ours also in packed rows with each attention function), a search of base and big with beam
4 and greedy (ours, CTranslate2 in float16), and the seconds of the default run.

Each part is a process of its own, alone on the device. It is cut off at its share of the time that
is left; what it has measured by then counts, and what finished is in RESULT.json and RESULT.md
after each part (--output=RESULT). A library that is missing, or too little memory, is a line of the
table. A second run with JAX_COMPILATION_CACHE_DIR set compiles less.

Tokens are those of the target. Milliseconds are the median of rounds of about a second, "first"
the seconds of the first time, with compiling. MFU is the model's arithmetic on real tokens to the
chip's peak in bfloat16.
"""

import argparse
import os
import sys
import tempfile
import time
from statistics import median
from typing import Any

from accelerator_parts import REFERENCES, list_parts
from referee import begin_report, check_device, write_json, write_text
from run_part import run_part
from settings import add_settings
from tabulate import tabulate

TITLES = "task", "contestant", "tokens/s", "MFU", "ms", "min–max", "first", "ratio", "remark"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--device", choices=["gpu", "tpu", "cpu"], default="gpu")
    parser.add_argument("--minutes", type=float, default=25.0, help="for all parts together")
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try this program out")
    parser.add_argument("--only", default="", help="texts, separated by commas: parts named so")
    parser.add_argument("--torch_python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--flax_example", help="the folder examples/wmt of a release of flax")
    parser.add_argument("--output", default="accelerator", help="name of both files, without .json")
    add_settings(parser)
    arguments = parser.parse_args()
    check_device(parser, arguments.device)
    if arguments.device == "cpu" and not arguments.small:
        parser.error("--device=cpu needs --small")
    if not list_parts(arguments):
        parser.error(f"--only must be part of the name of a part, not {arguments.only}")
    return arguments


def format_rows(rows: list[dict[str, Any]]) -> str:
    """Returns the table in Markdown; ratios are to the reference of the same task."""
    speeds = {
        row["task"]: row["tokens_per_second"]
        for row in rows
        if row["contestant"] in REFERENCES and row["tokens_per_second"]
    }
    return tabulate(
        [format_row(row, speeds.get(row["task"])) for row in rows],
        headers=TITLES,
        tablefmt="pipe",
        disable_numparse=True,
        colalign=("left", "left", *["right"] * 6, "left"),
    )


def format_row(row: dict[str, Any], reference: float | None) -> list[str]:
    """Returns the cells of a row; reference: tokens/s of what it is compared with."""
    shown = [row["task"], row["contestant"]]
    if not row["seconds"]:
        return [*shown, *["–"] * 6, row["remark"]]
    milliseconds = [1000 * seconds for seconds in row["seconds"]]
    speed, mfu = row["tokens_per_second"], row["mfu"]
    return [
        *shown,
        f"{speed:,.0f}" if speed else "–",
        f"{mfu:.1%}" if mfu else "–",
        f"{median(milliseconds):,.1f}",
        f"{min(milliseconds):,.1f}–{max(milliseconds):,.1f}",
        f"{row['first']:,.1f} s",
        f"{speed / reference:.2f}" if speed and reference else "–",
        row["remark"],
    ]


def main() -> None:
    arguments = parse_arguments()
    report, rows = begin_report(arguments), []
    parts, deadline = list_parts(arguments), time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # what a part leaves behind when it is ended goes with it
        for index, part in enumerate(parts):
            share = part.weight / sum(other.weight for other in parts[index:])
            rows += run_part(part, folder, share * (deadline - time.monotonic()))
            print(f"{part.name}: {rows[-1]['remark'] or 'measured'}", flush=True)
            write_json(f"{arguments.output}.json", report | {"rows": rows})
            heading = f"{report['date']}, {report['machine']}"
            write_text(f"{arguments.output}.md", f"{heading}\n\n{format_rows(rows)}\n")
    print(f"\n{format_rows(rows)}")


if __name__ == "__main__":
    main()
