"""A comparison of runs as tables: what the runs are, how they differ, and in which settings."""

from transformer.evaluation.compared_run import ComparedRun
from transformer.evaluation.comparison import Comparison
from transformer.evaluation.paired_tests import EXPLANATION
from transformer.evaluation.wide_table import Table, fitted_table


def run_table(comparison: Comparison) -> Table:
    """Returns the runs with their checkpoint, parameters, step and scores."""
    scores = comparison.first.scores
    table = [["run", "checkpoint", "parameters", "step", *(s.name for s in scores.values())]]
    for name, run in zip(comparison.names, comparison.runs, strict=True):
        step = "" if run.step is None else f"{run.step:,}"
        figures = [score_figures(comparison, run, key) for key in scores]
        table.append([name, run.checkpoint, f"{run.num_parameters:,}", step, *figures])
    return table


def score_figures(comparison: Comparison, run: ComparedRun, key: str) -> str:
    """Returns a score of a run with its interval; * marks one that cannot be compared."""
    if key not in run.scores:
        return "–"
    is_comparable = key != "perplexity" or comparison.has_comparable_perplexity(run)
    return run.scores[key].figures + ("" if is_comparable else "*")


def difference_table(comparison: Comparison) -> Table:
    """Returns the paired tests of each run against the first."""
    heads = ["score", "difference", "p, bootstrap", "p, randomisation"]
    table = [[f"against {comparison.names[0]}", *heads, *["p, Holm"] * _is_corrected(comparison)]]
    for found in comparison.differences:
        p_values = [found.p_bootstrap, found.p_randomisation]
        p_values += [found.p_holm] * _is_corrected(comparison)
        figures = [f"{found.difference:+.2f}", *(f"{p:.4f}" for p in p_values)]
        table.append([comparison.names[found.system], found.metric, *figures])
    return table


def settings_table(comparison: Comparison) -> Table:
    """Returns the settings that differ, with their value in each run."""
    rows = [
        [flag, *(repr(value) if value == "" else str(value) for value in values)]
        for flag, values in comparison.settings().items()
    ]
    return [["settings that differ", *comparison.names], *rows]


def signatures(comparison: Comparison) -> list[tuple[str, str]]:
    """Returns (score, signature) of each score, and then of each paired test."""
    scores = [(score.name, score.signature) for score in comparison.first.scores.values()]
    tests = {found.metric: found.signatures for found in comparison.differences}
    tested = [(name, text) for name, pair in tests.items() for text in pair]
    return list(dict.fromkeys(scores + tested))  # the bootstraps of both may be the same


def notes(comparison: Comparison) -> list[str]:
    """Returns what the p-values are, and what cannot be compared."""
    lines = [EXPLANATION] if comparison.differences else []
    if comparison.differences and _is_corrected(comparison):
        lines.append(
            f"p, Holm: that of randomisation, corrected for the {len(comparison.runs) - 1} "
            f"comparisons with the first run by one score."
        )
    return lines + perplexity_notes(comparison)


def perplexity_notes(comparison: Comparison) -> list[str]:
    """Returns what * means, if a perplexity has it."""
    has_perplexity = "perplexity" in comparison.first.scores
    if not has_perplexity or all(map(comparison.has_comparable_perplexity, comparison.runs)):
        return []
    return [
        "*: per token of another vocabulary than the first run's, or of other references, so not "
        "comparable with it."
    ]


def comparison_lines(comparison: Comparison, width: int | None = None) -> list[str]:
    """Returns what a person reads, in tables of at most `width` characters (None: any)."""
    blocks = [fitted_table(run_table(comparison), width, num_texts=2)]
    if comparison.differences:
        differences = difference_table(comparison)
        blocks.append(fitted_table(differences, width, num_texts=2, num_labels=2))
    if comparison.settings():
        blocks.append(fitted_table(settings_table(comparison), width, num_texts=1))
    else:
        blocks.append(["The runs have the same settings."])
    lines = [line for block in blocks for line in [*block, ""]]
    lines += [f"{name}  {signature}" for name, signature in signatures(comparison)]
    return lines + notes(comparison)


def _is_corrected(comparison: Comparison) -> bool:
    """Whether there are several comparisons, for whose number p-values are corrected."""
    return len(comparison.runs) > 2
