"""The table of an ablation: what each row changes, what it reaches, and what a paper reports."""

import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from transformer.evaluation.ablation_plan import Row
from transformer.evaluation.comparison import (
    ComparedRun,
    Comparison,
    Table,
    compare,
    without_tests,
)
from transformer.evaluation.scores import plain_table


@dataclass(frozen=True)
class AblationTable:
    """Rows that were trained, compared with the first.

    runs: of each row, one for each seed. comparison: of the first run of each row.
    """

    rows: Sequence[Row]
    runs: Sequence[Sequence[ComparedRun]]
    comparison: Comparison

    @property
    def has_seeds(self) -> bool:
        """Whether rows have several runs, whose mean and standard deviation are shown."""
        return any(len(runs) > 1 for runs in self.runs)

    def cells(self) -> Table:
        """Returns the table."""
        published = dict.fromkeys(name for row in self.rows for name in row.published)
        return [
            {
                "row": row.name,
                "changes": row.summary,
                "parameters": f"{runs[0].num_parameters:,}",
                "step": "" if runs[0].step is None else f"{runs[0].step:,}",
                **self._scores(number),
                **{f"paper: {name}": _number(row.published.get(name)) for name in published},
            }
            for number, (row, runs) in enumerate(zip(self.rows, self.runs, strict=True))
        ]

    def _scores(self, number: int) -> dict[str, str]:
        """Returns the cells of the scores of a row, and of the difference by the first score."""
        (primary, score), *others = self.comparison.first.scores.items()
        cells = {score.name: self._figures(number, primary)}
        cells["difference"] = self._difference(number, primary) if number else ""
        if tests := self.comparison.differences:
            p_values = (f"{test.p_holm:.4f}" for test in tests if test.system == number)
            cells["p"] = next(p_values, "")
        return cells | {score.name: self._figures(number, key) for key, score in others}

    def _figures(self, number: int, key: str) -> str:
        """Returns a score of a row: with its interval, or mean and deviation over the seeds."""
        if not self.has_seeds:
            return self.comparison.figures(self.runs[number][0], key)
        scores = [run.scores[key] for run in self.runs[number] if key in run.scores]
        return _mean([score.value for score in scores], f".{scores[0].digits}f") if scores else "–"

    def _difference(self, number: int, key: str) -> str:
        """Returns the difference from the first row, of the runs with the same seeds."""
        pairs = zip(self.runs[0], self.runs[number], strict=True)
        scores = [(first.scores[key], run.scores.get(key)) for first, run in pairs]
        values = [score.value - first.value for first, score in scores if score]
        return _mean(values, "+.2f") if values else "–"

    def notes(self) -> list[str]:
        """Returns what the columns mean, and what else than the rows say differs between runs."""
        first, count = self.rows[0].name, len(self.rows) - 1
        if self.has_seeds:
            lines = ["±: standard deviation over the seeds; differences are between equal seeds."]
        else:
            lines = ["±: half a 95% interval over the examples of the test set."]
        if self.comparison.differences:
            lines.append(
                f"p: sacrebleu's paired approximate randomisation against {first}"
                + (f", corrected by Holm's method for {count} comparisons." if count > 1 else ".")
            )
        elif count and not self.has_seeds and self.comparison.first.segments:
            lines.append(f"No paired tests: rows have other references than {first}.")
        return lines + self.comparison.perplexity_notes() + self._other_differences()

    def _other_differences(self) -> list[str]:
        """Returns what differs between the runs although no row says so."""
        base = self.rows[0]
        return [
            f"{row.name} also differs from {base.name} in {name}: {value}, not {values[0]}."
            for flag, values in self.comparison.settings().items()
            for row, value in zip(self.rows, values, strict=True)
            if value != values[0]
            and (name := flag.removeprefix("--config.")) not in row.changes | base.changes
        ]

    def lines(self) -> list[str]:
        """Returns what a person reads."""
        return [*plain_table(self.cells(), "llr"), "", *self.notes()]

    def markdown(self) -> str:
        """Returns table.md."""
        first = self.comparison.first
        signatures = self.comparison.signatures()[: len(first.scores)]
        notes = [*self.notes(), *(f"{name}: `{signature}`" for name, signature in signatures)]
        cells = [
            {head: cell.replace("|", "\\|") for head, cell in row.items()} for row in self.cells()
        ]
        lines = [f"{first.corpus}, {first.primary.direction}", ""]
        lines += [*plain_table(cells, "llr", style="pipe"), "", *(f"- {note}" for note in notes)]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Returns what table.json holds."""
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
    comparison = without_tests([each[0] for each in runs])
    if all(len(each) == 1 for each in runs):
        with suppress(ValueError):
            comparison = compare(comparison.runs)
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
