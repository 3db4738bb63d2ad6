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
from transformer.evaluation.output_checks import DEFINITIONS
from transformer.evaluation.run_facts import RunFacts
from transformer.evaluation.segments import worst_and_best

if TYPE_CHECKING:
    from transformer.evaluation.checkpoint_series import CheckpointRow
    from transformer.evaluation.evaluation import Evaluation

NO_FACTS = RunFacts()


def render(
    result: Evaluation,
    title: str,
    *,
    curves: Sequence[dict[str, Any]] = (),
    checkpoints: Sequence[CheckpointRow] = (),
    facts: RunFacts = NO_FACTS,
) -> str:
    """Returns the report as HTML.

    title: the name of the run. curves: records as in metrics.jsonl. checkpoints: all that were
    scored, `result` being the last. facts: on the run. Without matplotlib it says how to get the
    pictures.
    """
    worst, best = worst_and_best(result.segments)
    ends = [row.score.value + (row.score.interval or 0) for row in result.by_length]
    pictures, note = {"training": None, "checkpoints": None, "attention": []}, ""
    try:
        pictures |= _pictures(result, curves, checkpoints)
    except plots.NoMatplotlibError as error:
        note = str(error)
    return page_template("report.html.jinja").render(
        result=result,
        title=title,
        checkpoints=checkpoints if len(checkpoints) > 1 else (),
        worst=worst,
        best=best,
        bar_scale=100 / max([*ends, 1e-9]),  # the longest bar fills its cell
        pictures=pictures,
        note=note,
        fault_definitions=DEFINITIONS,
        facts=facts,
    )


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
    ours, theirs = text.split(), reference.split()
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        (" ".join(ours[start:end]), kind != "equal")
        for kind, start, end, _, _ in matcher.get_opcodes()
        if start < end
    ]


def _pictures(
    result: Evaluation,
    curves: Sequence[dict[str, Any]],
    checkpoints: Sequence[CheckpointRow],
) -> dict[str, Any]:
    """Returns the SVG elements of each section that has any."""

    def svg(draw: Callable[..., None], name: str, **content: Any) -> Markup:
        # plots escapes all text in an SVG
        return Markup(plots.render_svg(partial(draw, **content), name))

    pictures: dict[str, Any] = {}
    if any("loss" in record for record in curves):
        pictures["training"] = svg(plots.draw_curves, "training", records=curves)
    if len(checkpoints) > 1:
        pictures["checkpoints"] = svg(plots.draw_checkpoints, "checkpoints", rows=checkpoints)
    pictures["attention"] = [
        svg(plots.draw_attention, f"attention{number}", attention=attention)
        for number, attention in enumerate(result.maps)
    ]
    return pictures
