"""Trains the rows of an ablation one after the other, and tabulates those that finished."""

import json
import traceback
from collections.abc import Sequence

import jax
from etils import epath
from etils.epath import PathLike

from transformer.console import phase, say
from transformer.evaluation.ablation_plan import Row
from transformer.evaluation.ablation_table import AblationTable, make_table
from transformer.evaluation.comparison import saved_run
from transformer.evaluation.html_report import render_comparison
from transformer.exit_codes import DONE, FAILED, INTERRUPTED, RESUMABLE, WRONG_INPUT
from transformer.files import storage
from transformer.files.reading import reason_of
from transformer.parallel import hosts
from transformer.training.run import train


def ablate(
    rows: Sequence[Row], seeds: Sequence[int], folder: PathLike
) -> tuple[AblationTable | None, int]:
    """Trains each row with each seed, unless that is done, and tabulates those that finished.

    folder: holds the work directories, and then the table as table.md, table.json and report.html.
    Returns (the table, None on all hosts but the first and where there is none; exit code, that of
    the first row that failed). The first row that a signal stops is the last.
    """
    root, failed = storage.locate(folder), {}
    for number, row in enumerate(rows, start=1):
        for seed in seeds:
            say(f"\nrow {row.name} ({number} of {len(rows)}), seed {seed}: {row.summary}")
            if code := _train_row(row, seed, root):
                failed[row.name] = max(code, failed.get(row.name, 0))
            if code in (INTERRUPTED, RESUMABLE):
                return None, code
    finished = [row for row in rows if row.name not in failed]
    is_writing = jax.process_index() == 0 and bool(finished)
    table = tabulate(finished, seeds, root) if is_writing else None
    hosts.wait_for_all("the table")  # a host that leaves ends the others
    if failed:
        say(f"error: these rows failed: {', '.join(failed)}; see above.")
    return table, next(iter(failed.values()), DONE)


def _train_row(row: Row, seed: int, root: epath.Path) -> int:
    """Trains a row with a seed; returns its exit code, whatever fails."""
    config = row.config.with_values({"training.seed": seed})
    try:
        return train(config, run_folder(row, seed, root)).exit_code
    except Exception as error:  # any: the other rows are worth their own time
        if jax.process_count() > 1:  # the other hosts may have come further
            raise
        if isinstance(error, ValueError):
            said, code = str(error), WRONG_INPUT
        elif isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            said = f"the memory is not enough ({reason_of(error)}); raise training.accumulate_steps"
            code = WRONG_INPUT
        else:
            said, code = traceback.format_exc(), FAILED
        say(f"error: row {row.name}: {said}")
        return code


def run_folder(row: Row, seed: int, root: epath.Path) -> epath.Path:
    """Returns the work directory of a row with a seed; the base's own seed is not in its name."""
    return root / (row.name if seed == row.config.training.seed else f"{row.name}_seed{seed}")


def tabulate(rows: Sequence[Row], seeds: Sequence[int], root: epath.Path) -> AblationTable:
    """Returns the table of finished rows; writes it as table.md, table.json and report.html."""
    with phase("comparing the rows"):
        runs = [[saved_run(run_folder(row, seed, root)) for seed in seeds] for row in rows]
        table = make_table(rows, runs)
    record = json.dumps(table.to_json(), indent=2, ensure_ascii=False) + "\n"
    storage.write_atomically(root / "table.md", table.markdown())
    storage.write_atomically(root / "table.json", record)
    storage.write_atomically(root / "report.html", render_comparison(table.comparison))
    say(f"table: {root / 'table.md'}   report: {root / 'report.html'}")
    return table
