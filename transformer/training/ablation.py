"""Trains the rows of an ablation one after the other, and tabulates those that finished."""

import json
import statistics
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike

from transformer.console import phase, say
from transformer.evaluation.ablation_plan import Row
from transformer.evaluation.comparison import (
    ComparedRun,
    Comparison,
    compare_runs,
    perplexity_notes,
    saved_run,
)
from transformer.evaluation.html_report import render_comparison
from transformer.evaluation.scores import Table, plain_table
from transformer.exit_codes import DONE, FAILED, INTERRUPTED, RESUMABLE, WRONG_INPUT
from transformer.files import storage
from transformer.files.reading import reason_of
from transformer.parallel import hosts
from transformer.training.run import train


@dataclass(frozen=True)
class AblationTable:
    """Rows that were trained, compared with the first.

    runs: of each row, one for each seed. comparison: of the first run of each row.
    """

    rows: Sequence[Row]
    runs: Sequence[Sequence[ComparedRun]]
    comparison: Comparison

    def cells(self) -> Table:
        (primary, name), *others = self.comparison.first.names.items()
        tests = self.comparison.differences
        p_values = {test.system: f"{test.p_holm:.4f}" for test in tests[::-1]}  # by the first score
        published = dict.fromkeys(name for row in self.rows for name in row.published)
        return [
            {
                "row": row.name,
                "changes": row.summary,
                "parameters": f"{runs[0].num_parameters:,}",
                "step": "" if runs[0].step is None else f"{runs[0].step:,}",
                name: self._figures(runs, primary),
                "difference": self._difference(runs, primary) if number else "",
                **({"p": p_values.get(number, "")} if tests else {}),
                **{head: self._figures(runs, key) for key, head in others},
                **{f"paper: {head}": _number(row.published.get(head)) for head in published},
            }
            for number, (row, runs) in enumerate(zip(self.rows, self.runs, strict=True))
        ]

    def _figures(self, runs: Sequence[ComparedRun], key: str) -> str:
        """Returns a score of a row: with its interval, or mean and deviation over the seeds."""
        if len(runs) == 1:
            return self.comparison.figures(runs[0], key)
        scores = [run.scores[key] for run in runs if key in run.scores]
        return _mean([score.value for score in scores], f".{scores[0].digits}f") if scores else "–"

    def _difference(self, runs: Sequence[ComparedRun], key: str) -> str:
        """Returns the difference of a score from the first row, between equal seeds."""
        pairs = zip(self.runs[0], runs, strict=True)
        scores = [(first.scores[key], run.scores.get(key)) for first, run in pairs]
        values = [score.value - first.value for first, score in scores if score]
        return _mean(values, "+.2f") if values else "–"

    def notes(self) -> list[str]:
        base, count, has_seeds = self.rows[0], len(self.rows) - 1, len(self.runs[0]) > 1
        lines = ["±: half a 95% interval over the examples of the test set."]
        if has_seeds:
            lines = ["±: standard deviation over the seeds; differences are between equal seeds."]
        if self.comparison.differences:
            lines.append(
                f"p: sacrebleu's paired approximate randomisation against {base.name}"
                + (f", corrected by Holm's method for {count} comparisons." if count > 1 else ".")
            )
        elif count and not has_seeds and self.comparison.first.segments:
            lines.append(f"No paired tests: rows have other references than {base.name}.")
        lines += perplexity_notes(self.cells())
        for flag, values in self.comparison.settings().items():
            name = flag.removeprefix("--config.")
            lines += [
                f"{row.name} also differs from {base.name} in {name}: {value}, not {values[0]}."
                for row, value in zip(self.rows, values, strict=True)
                if value != values[0] and name not in row.changes | base.changes
            ]
        return lines

    def lines(self) -> list[str]:
        return [*plain_table(self.cells(), "llr"), "", *self.notes()]

    def markdown(self) -> str:
        first = self.comparison.first
        signatures = self.comparison.signatures()[: len(first.scores)]
        notes = [*self.notes(), *(f"{name}: `{signature}`" for name, signature in signatures)]
        cells = [
            {head: cell.replace("|", "\\|") for head, cell in row.items()} for row in self.cells()
        ]
        lines = [f"{first.corpus}, {first.primary.direction}", ""]
        lines += [*plain_table(cells, "llr", "pipe"), "", *(f"- {note}" for note in notes)]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "name": row.name,
                "changes": row.changes,
                "runs": [run.to_json() for run in runs],
                "published": dict(row.published),
            }
            for row, runs in zip(self.rows, self.runs, strict=True)
        ]
        return {"rows": rows, "comparison": self.comparison.to_json()}


def make_table(rows: Sequence[Row], runs: Sequence[Sequence[ComparedRun]]) -> AblationTable:
    """Returns the table of rows, each compared with the first; runs: of each row, by seed.

    There are no paired tests of rows with several seeds, or with other references than the first.
    """
    comparison = Comparison([each[0] for each in runs])
    if all(len(each) == 1 for each in runs):
        with suppress(ValueError):
            comparison = compare_runs(comparison.runs)
        runs = [[run] for run in comparison.runs]  # scored by the metric of the first
    return AblationTable(rows, runs, comparison)


def _mean(values: Sequence[float], style: str) -> str:
    """Returns a mean and, of several values, their standard deviation: "25.10 ± 0.31"."""
    deviation = f" ± {statistics.stdev(values):{style.lstrip('+')}}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):{style}}{deviation}"


def _number(value: float | None) -> str:
    """Returns a published number: 25.8, or 65M for many parameters."""
    if value is None:
        return ""
    return f"{value / 1e6:,.0f}M" if value >= 1e6 else f"{value:g}"


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
    finished, table = [row for row in rows if row.name not in failed], None
    if finished and jax.process_index() == 0:
        with phase("comparing the rows"):
            runs = [[saved_run(_run_folder(row, seed, root)) for seed in seeds] for row in finished]
            table = make_table(finished, runs)
        json_text = json.dumps(table.to_json(), indent=2, ensure_ascii=False) + "\n"
        storage.write_atomically(root / "table.md", table.markdown())
        storage.write_atomically(root / "table.json", json_text)
        storage.write_atomically(root / "report.html", render_comparison(table.comparison))
        say(f"table: {root / 'table.md'}   report: {root / 'report.html'}")
    hosts.wait_for_all("the table")  # a host that leaves ends the others
    if failed:
        say(f"error: these rows failed: {', '.join(failed)}; see above.")
    return table, next(iter(failed.values()), DONE)


def _train_row(row: Row, seed: int, root: epath.Path) -> int:
    """Trains a row with a seed; returns its exit code, whatever fails."""
    config = row.config.with_values({"training.seed": seed})
    try:
        return train(config, _run_folder(row, seed, root)).exit_code
    except Exception as error:  # any: the other rows are worth their own time
        if jax.process_count() > 1:  # the other hosts may have come further
            raise
        said, code = str(error), WRONG_INPUT
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in said:
            said = f"the memory is not enough ({reason_of(error)}); raise training.accumulate_steps"
        elif not isinstance(error, ValueError):
            said, code = traceback.format_exc(), FAILED
        say(f"error: row {row.name}: {said}")
        return code


def _run_folder(row: Row, seed: int, root: epath.Path) -> epath.Path:
    """Returns the work directory of a row with a seed; the base's own seed is not in its name."""
    return root / (row.name if seed == row.config.training.seed else f"{row.name}_seed{seed}")
