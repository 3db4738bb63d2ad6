"""The table of an ablation: what each row changes, what it reaches, and what a paper reports."""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from transformer.evaluation.compared_run import ComparedRun
from transformer.evaluation.comparison import Comparison, compare, without_tests
from transformer.evaluation.comparison_tables import perplexity_notes, score_figures, signatures
from transformer.evaluation.paired_tests import PairedDifference
from transformer.evaluation.wide_table import Table, markdown_table


@dataclass(frozen=True)
class TableRow:
    """A row of the table.

    changes: {setting: (value in the base, value in the row)}, and in words. runs: one for each
    seed. published: what a paper reports of it, by the name of the score.
    """

    name: str
    changes: Mapping[str, tuple[Any, Any]]
    summary: str
    runs: Sequence[ComparedRun]
    published: Mapping[str, float]


@dataclass(frozen=True)
class AblationTable:
    """Rows that were trained, compared with the first.

    comparison: of the first run of each row.
    """

    rows: Sequence[TableRow]
    comparison: Comparison

    @property
    def has_seeds(self) -> bool:
        """Whether rows have several runs, whose mean and standard deviation are shown."""
        return any(len(row.runs) > 1 for row in self.rows)

    def cells(self) -> Table:
        """Returns the table, headers first."""
        primary, *others = self.comparison.first.scores.items()
        p_heads = [] if self.has_seeds else ["p"] * bool(self.comparison.differences)
        published = list(dict.fromkeys(key for row in self.rows for key in row.published))
        table = [
            ["row", "changes", "parameters", "step", primary[1].name, "difference", *p_heads]
            + [score.name for _, score in others]
            + [f"paper: {key}" for key in published]
        ]
        for number, row in enumerate(self.rows):
            run = row.runs[0]
            step = "" if run.step is None else f"{run.step:,}"
            cells = [row.name, row.summary, f"{run.num_parameters:,}", step]
            cells += [self._figures(number, primary[0]), self._difference(number, primary[0])]
            cells += [self._p_value(number)] * len(p_heads)
            cells += [self._figures(number, key) for key, _ in others]
            cells += [_number(row.published.get(key)) for key in published]
            table.append(cells)
        return table

    def _figures(self, number: int, key: str) -> str:
        """Returns a score of a row: with its interval, or mean and deviation over the seeds."""
        if not self.has_seeds:
            return score_figures(self.comparison, self.comparison.runs[number], key)
        runs = self.rows[number].runs
        values = [run.scores[key].value for run in runs if key in run.scores]
        digits = runs[0].scores[key].DIGITS if values else 0
        return _mean(values, digits) if values else "–"

    def _difference(self, number: int, key: str) -> str:
        """Returns the difference from the first row, of the runs with the same seeds."""
        if number == 0:
            return ""
        if test := self._test(number):
            return f"{test.difference:+.2f}"
        pairs = zip(self.rows[0].runs, self.rows[number].runs, strict=True)
        scores = [(first.scores[key], ours.scores.get(key)) for first, ours in pairs]
        values = [ours.value - first.value for first, ours in scores if ours]
        return _mean(values, 2, sign="+") if values else "–"

    def _p_value(self, number: int) -> str:
        test = self._test(number)
        return f"{test.p_holm:.4f}" if test else ""

    def _test(self, number: int) -> PairedDifference | None:
        """Returns the paired test of a row by the primary score."""
        return next((d for d in self.comparison.differences if d.system == number), None)

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
        return lines + perplexity_notes(self.comparison) + self._other_differences()

    def _other_differences(self) -> list[str]:
        """Returns what differs between the runs although no row says so."""
        lines = []
        for flag, values in self.comparison.settings().items():
            name = flag.removeprefix("--config.")
            for row, value in zip(self.rows, values, strict=True):
                is_meant = name in row.changes or name in self.rows[0].changes
                if value != values[0] and not is_meant:
                    lines.append(
                        f"{row.name} also differs from {self.rows[0].name} in {name}: {value}, not "
                        f"{values[0]}."
                    )
        return lines

    def markdown(self) -> str:
        """Returns table.md."""
        texts = [*self.notes(), *(f"{name}: `{text}`" for name, text in self.signatures())]
        first = self.comparison.first
        title = f"{first.corpus}, {next(iter(first.scores.values())).direction}"
        table = markdown_table(self.cells(), num_texts=2)
        return f"{title}\n\n{table}\n" + "".join(f"- {text}\n" for text in texts)

    def signatures(self) -> list[tuple[str, str]]:
        """Returns (score, signature) of the scores that are shown."""
        names = len(self.comparison.first.scores)
        return signatures(self.comparison)[:names]

    def to_json(self) -> dict[str, Any]:
        """Returns what table.json holds."""
        rows = [
            {
                "name": row.name,
                "changes": row.changes,
                "runs": [run.to_json() for run in row.runs],
                "published": dict(row.published),
            }
            for row in self.rows
        ]
        return {"rows": rows, "comparison": self.comparison.to_json()}


def make_table(rows: Sequence[TableRow]) -> AblationTable:
    """Returns the table of rows, each compared with the first.

    There are no paired tests of rows with several seeds, or with other references than the first.
    """
    runs = [row.runs[0] for row in rows]
    if all(len(row.runs) == 1 for row in rows):
        with suppress(ValueError):
            return AblationTable(rows, compare(runs))
    return AblationTable(rows, without_tests(runs))


def _mean(values: Sequence[float], digits: int, sign: str = "") -> str:
    """Returns a mean and, of several values, their standard deviation: "25.10 ± 0.31"."""
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):{sign}.{digits}f}{deviation}"


def _number(value: float | None) -> str:
    """Returns a published number: 25.8, or 65M for many parameters."""
    if value is None:
        return ""
    return f"{value / 1e6:,.0f}M" if value >= 1e6 else f"{value:g}"
