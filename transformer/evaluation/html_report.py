"""report.html: scores, curves, attention and segments of a test set in one self-contained file.

Its text and style are in the templates `*.html.jinja`; this module prepares what they need.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from transformer.evaluation import plots
from transformer.evaluation.results import changed_settings, origin
from transformer.evaluation.segments import FAULTS, range_text, worst_and_best
from transformer.workdir import WorkDir

if TYPE_CHECKING:
    from transformer.evaluation.comparison import Comparison
    from transformer.evaluation.task_scores import TaskScores
    from transformer.evaluation.translation import Evaluation


def render(result: Evaluation, workdir: WorkDir, checkpoints: Sequence[TaskScores] = ()) -> str:
    """Returns the report on a run as HTML.

    workdir: of the run, whose curves and settings are shown if there are any. checkpoints: all that
    were scored, `result` being the last. Without matplotlib it says how to get the pictures.
    """
    checkpoints = checkpoints if len(checkpoints) > 1 else ()
    worst, best = worst_and_best(result.segments)
    ends = [score.value + (score.interval or 0) for score in result.by_length.values()]
    pictures, note = {"training": None, "checkpoints": None, "attention": []}, ""
    try:
        pictures |= _pictures(result, workdir.read_metrics(), checkpoints)
    except plots.NoMatplotlibError as error:
        note = str(error)
    return page_template("report.html.jinja").render(
        result=result,
        title=str(workdir.path),
        checkpoints=checkpoints,
        worst=worst,
        best=best,
        bar_scale=100 / max([*ends, 1e-9]),  # the longest bar fills its cell
        range_text=range_text,
        pictures=pictures,
        note=note,
        faults=FAULTS,
        settings=changed_settings(workdir),
        origin=origin(workdir),
    )


def render_comparison(comparison: Comparison) -> str:
    """Returns the report on several runs as HTML."""
    return page_template("comparison.html.jinja").render(comparison=comparison)


@cache
def page_template(name: str) -> jinja2.Template:
    """Returns a template of this package, which escapes all that is put into it."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("transformer.evaluation", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["mark_differences"] = mark_differences
    return environment.get_template(name)


def mark_differences(text: str, reference: str) -> list[tuple[str, bool]]:
    """Splits a text into runs of words and whether the reference lacks them at that position.

    >>> mark_differences("the red car", "the blue car")
    [('the', False), ('red', True), ('car', False)]
    """
    words = text.split()
    matcher = difflib.SequenceMatcher(None, words, reference.split(), autojunk=False)
    return [
        (" ".join(words[start:end]), kind != "equal")
        for kind, start, end, _, _ in matcher.get_opcodes()
        if start < end
    ]


def _pictures(
    result: Evaluation, curves: Sequence[dict[str, Any]], checkpoints: Sequence[TaskScores]
) -> dict[str, Any]:
    """Returns the SVG elements of each section that has any; curves: records of metrics.jsonl."""

    def svg(draw: Callable[..., None], name: str, **content: Any) -> Markup:
        # plots escapes all text in an SVG
        return Markup(plots.render_svg(partial(draw, **content), name))

    pictures: dict[str, Any] = {}
    if any("loss" in record for record in curves):
        pictures["training"] = svg(plots.draw_curves, "training", records=curves)
    if checkpoints:
        pictures["checkpoints"] = svg(plots.draw_checkpoints, "checkpoints", rows=checkpoints)
    pictures["attention"] = [
        svg(plots.draw_attention, f"attention{number}", attention=attention)
        for number, attention in enumerate(result.maps)
    ]
    return pictures
