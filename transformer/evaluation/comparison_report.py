"""The report of a comparison: a page for people and report.json for programs."""

from etils import epath

from transformer.console import phase
from transformer.evaluation import comparison_tables
from transformer.evaluation.comparison import Comparison
from transformer.evaluation.html_report import page_template
from transformer.evaluation.task_scores import write_results
from transformer.workdir import WorkDir


def save_comparison(workdir: WorkDir, name: str, comparison: Comparison) -> epath.Path:
    """Writes results/NAME/ of a work directory; returns the path of its report.json."""
    with phase("writing the report"):
        files = {"report.html": render_comparison(comparison)}
    return write_results(workdir, name, comparison.to_json(), files)


def render_comparison(comparison: Comparison) -> str:
    """Returns the page as HTML."""
    return page_template("comparison.html.jinja").render(
        comparison=comparison,
        runs=comparison_tables.run_table(comparison),
        differences=comparison_tables.difference_table(comparison),
        settings=comparison_tables.settings_table(comparison),
        signatures=comparison_tables.signatures(comparison),
        notes=comparison_tables.notes(comparison),
        num_segments=5 if len(comparison.runs) == 2 else 3,
    )
