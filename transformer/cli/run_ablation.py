"""The body of the ablate command: trains each row in turn, then tabulates those that finished."""

import json
import traceback
from collections.abc import Sequence
from contextlib import suppress

import jax
from etils import epath

from transformer.cli.compare_runs import terminal_width
from transformer.cli.hosts import HostFlags, connect_hosts
from transformer.cli.process import explain_runtime_error
from transformer.console import phase, print_results, say
from transformer.evaluation.ablation_plan import Row
from transformer.evaluation.ablation_table import AblationTable, TableRow, make_table
from transformer.evaluation.compared_run import saved_run
from transformer.evaluation.comparison_report import render_comparison
from transformer.evaluation.wide_table import fitted_table
from transformer.exit_codes import DONE, FAILED, INTERRUPTED, RESUMABLE, WRONG_INPUT
from transformer.files import storage
from transformer.parallel import hosts
from transformer.training.next_commands import this_command
from transformer.training.run import train


def run_ablation(flags: HostFlags, folder: str, rows: Sequence[Row], seeds: Sequence[int]) -> int:
    """Trains what is not finished yet and tabulates; returns the exit code.

    folder: holds the work directories of the rows and the table. seeds: each row is trained with
    each of them.
    """
    connect_hosts(flags)
    root, failures, finished = storage.locate(folder), [], []
    for number, row in enumerate(rows, start=1):
        codes = []
        for seed in seeds:
            say(f"\nrow {row.name} ({number} of {len(rows)}), seed {seed}: {row.summary}")
            codes.append(train_row(row, seed, root))
            if codes[-1] in (INTERRUPTED, RESUMABLE):
                return codes[-1]
        if any(codes):
            failures.append((row.name, max(codes)))
        else:
            finished.append(row)
    if jax.process_index() == 0 and finished:
        tabulate(finished, seeds, root)
    hosts.wait_for_all("the table")  # a host that leaves ends the others
    if failures:
        say(f"error: these rows failed: {', '.join(name for name, _ in failures)}; see above.")
    return failures[0][1] if failures else DONE


def train_row(row: Row, seed: int, root: epath.Path) -> int:
    """Trains a row with a seed, unless that is done; returns its exit code, whatever fails."""
    config = row.config.with_values({"training.seed": seed})
    try:
        result = train(config, run_folder(row, seed, root), resume_command=this_command())
        return result.exit_code
    except Exception as error:  # any: the other rows are worth their own time
        if jax.process_count() > 1:  # the other hosts may have come further
            raise
        text, code = _explain(error)
        say(f"error: row {row.name}: {text}")
        return code


def run_folder(row: Row, seed: int, root: epath.Path) -> epath.Path:
    """Returns the work directory of a row with a seed; the base's own seed is not in its name."""
    return root / (row.name if seed == row.config.training.seed else f"{row.name}_seed{seed}")


def _explain(error: Exception) -> tuple[str, int]:
    """Returns (what to say, exit code) of an error that ended a row."""
    if isinstance(error, ValueError):
        return str(error), WRONG_INPUT
    if isinstance(error, RuntimeError):
        with suppress(RuntimeError):
            return explain_runtime_error(error)
    return traceback.format_exc(), FAILED


def tabulate(rows: Sequence[Row], seeds: Sequence[int], root: epath.Path) -> None:
    """Prints the table of finished rows and writes it as table.md, table.json and report.html."""
    with phase("comparing the rows"):
        table = make_table(
            [
                TableRow(
                    row.name,
                    row.changes,
                    row.summary,
                    [saved_run(run_folder(row, seed, root)) for seed in seeds],
                    row.published,
                )
                for row in rows
            ]
        )
    lines = fitted_table(table.cells(), terminal_width(), num_texts=2)
    print_results(["", *lines, "", *table.notes()])
    write_table(table, root)
    say(f"table: {root / 'table.md'}   report: {root / 'report.html'}")


def write_table(table: AblationTable, root: epath.Path) -> None:
    """Writes table.md, table.json and report.html."""
    record = json.dumps(table.to_json(), indent=2, ensure_ascii=False) + "\n"
    storage.write_atomically(root / "table.md", table.markdown())
    storage.write_atomically(root / "table.json", record)
    storage.write_atomically(root / "report.html", render_comparison(table.comparison))
