"""report.html: scores, curves, attention and segments of a test set in one self-contained file.

Its text and style are in the templates `*.html.jinja`; this module prepares what they need.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from transformer.config import Config
from transformer.console import quantity
from transformer.evaluation import plots
from transformer.workdir import WorkDir

if TYPE_CHECKING:
    from transformer.evaluation.comparison import Comparison
    from transformer.evaluation.scores import TaskScores
    from transformer.evaluation.translation import Evaluation


def render(result: Evaluation, workdir: WorkDir, checkpoints: Sequence[TaskScores] = ()) -> str:
    """Returns the report on a run as HTML.

    workdir: of the run, whose curves and settings are shown if there are any. checkpoints: all that
    were scored, `result` being the last. Without matplotlib it says how to get the pictures.
    """
    ends = [score.value + (score.interval or 0) for score in result.by_length.values()]
    return _template("report.html.jinja").render(
        result=result,
        title=str(workdir.path),
        curves=workdir.read_metrics(),
        checkpoints=checkpoints if len(checkpoints) > 1 else (),
        bar_scale=100 / max([*ends, 1e-9]),  # the longest bar fills its cell
        settings=workdir.load_config().differences(Config()) if workdir.has_run else {},
        origin=origin(workdir),
    )


def render_comparison(comparison: Comparison) -> str:
    """Returns the report on several runs as HTML."""
    runs = zip(comparison.names, comparison.runs, strict=True)
    curves = {name: WorkDir(run.path).read_metrics() for name, run in runs}
    return _template("comparison.html.jinja").render(comparison=comparison, curves=curves)


def _template(name: str) -> jinja2.Template:
    """Returns a template of this package, which escapes all that is put into it.

    In it, `svg(draw, name, …)` is a picture of `plots`, empty without matplotlib; `missing` then
    says how to get it.
    """
    missing: set[str] = set()

    def svg(draw: Callable[..., None], name: str, **content: Any) -> Markup:
        try:
            return Markup(plots.render_svg(partial(draw, **content), name))  # plots escapes text
        except plots.NoMatplotlibError as error:
            missing.add(str(error))
            return Markup()

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("transformer.evaluation", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["mark_differences"] = mark_differences
    known = {"plots": plots, "svg": svg, "missing": missing}
    return environment.get_template(name, globals=known)


def origin(workdir: WorkDir) -> dict[str, str]:
    """Returns when, with what and on what a run was trained last, and the command that began it."""
    if not (starts := workdir.read_starts()):
        return {}
    last = starts[-1]
    devices = [f"{count} × {kind}" for kind, count in last.get("devices", {}).items()]
    versions = {"Python": last.get("python", "?"), **last.get("packages", {})}
    facts = {
        "started": f"{last['time']}, {quantity(len(starts), 'start')}",
        "devices": f"{', '.join(devices)} on {quantity(last.get('num_hosts', 1), 'host')}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "commit": last.get("commit") or "",
        "command": shlex.join(starts[0].get("command", [])),  # which had the settings
    }
    return {name: text for name, text in facts.items() if text}


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
