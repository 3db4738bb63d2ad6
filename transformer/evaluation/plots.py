"""Pictures of a run: its curves, the scores of its checkpoints, its attention.

matplotlib draws them (the extra `pictures`), into files or as SVG inside report.html.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from etils import epath
from etils.epath import PathLike

from transformer.console import escaped
from transformer.files.storage import write_atomically
from transformer.registry import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from transformer.evaluation.scores import TaskScores

Draw = Callable[["Figure"], None]  # draws on an empty figure
INK = "#20252b"  # of axes and text; in an SVG it gives way to the page's own colour
GREY, BLUE, RED, GREEN = "#8a94a0", "#3f7fc1", "#c8554a", "#4a9a66"  # on white and on black
LONGEST_LABEL = 14  # characters
# DejaVu comes with matplotlib and has Latin, Greek, Cyrillic, Hebrew and Arabic; the others are
# used where they are installed, for Chinese and Japanese, Korean and further scripts.
FONTS = (
    *("DejaVu Sans", "Noto Sans CJK JP", "Noto Sans JP", "IPAexGothic", "WenQuanYi Zen Hei"),
    *("Hiragino Sans", "PingFang SC", "Arial Unicode MS", "Noto Sans KR", "NanumGothic"),
    *("Noto Sans Devanagari", "Lohit Devanagari", "Noto Sans Thai", "Loma", "Unifont"),
)
OTHER_SCORES = {"f1": "entity F1", "accuracy": "accuracy"}  # the first that a run has is drawn
STYLE = {
    "axes.grid": True,
    "axes.titlesize": 10,
    "font.sans-serif": FONTS[:1],
    "font.size": 9,
    "grid.alpha": 0.15,
    "legend.frameon": False,
    "path.simplify_threshold": 1.0,  # a line of any length has about two points per pixel
    "svg.fonttype": "none",  # text stays text, in the page's font
    "svg.hashsalt": "",  # the same picture has the same ids every time
    "text.parse_math": False,  # a "$" in a sentence begins no formula
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "grid.color", "text.color"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), INK),
}


@dataclass
class AttentionMap:
    """Attention weights to draw, of one example.

    source, translation: its texts. source_pieces: the S tokens that are attended to; target_pieces:
    the T tokens that attend. weights: [layers, N, T, S], N = 1 for the mean over heads. axes: what
    the two sides are called.
    """

    source: str
    translation: str
    source_pieces: list[str]
    target_pieces: list[str]
    weights: np.ndarray
    axes: tuple[str, str] = ("source", "translation")


class NoMatplotlibError(ValueError):
    """Pictures were asked for, but matplotlib is not installed."""


def render(draw: Draw, format: str, **options: Any) -> bytes:
    """Returns the picture that `draw` makes, as "png", "svg" or another of matplotlib's formats.

    options: of matplotlib's `savefig`. Raises NoMatplotlibError where there is no matplotlib.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.font_manager import get_font_names
    except ImportError:
        raise NoMatplotlibError(
            "Pictures need matplotlib: pip install matplotlib (the extra 'pictures')."
        ) from None
    picture, style = io.BytesIO(), STYLE
    is_text = format == "svg"  # which is drawn in whatever fonts the reader has
    if not is_text:
        installed = get_font_names()
        style = STYLE | {"font.family": [name for name in FONTS if name in installed]}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        if is_text:
            warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(layout="constrained")
        draw(figure)
        figure.savefig(picture, format=format, **options)
    return picture.getvalue()


def render_svg(draw: Draw, name: str) -> str:
    """Returns a picture as an <svg> element for a page, in the page's text colour.

    name: a prefix of the ids in it, which must be unique on a page. Raises what `render` raises.
    """
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    svg = render(draw, "svg", transparent=True, metadata=no_metadata).decode()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = re.sub("<style.*?</style>", "", svg)  # it would hold for the whole page
    ids = partial(re.sub, r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-")
    return re.sub("<[^>]+>", lambda tag: ids(tag[0]), svg)


def save_picture(draw: Draw, path: PathLike) -> None:
    """Writes a picture in the format of the path's suffix, also to an object store."""
    suffix = epath.Path(path).suffix[1:] or "png"
    write_atomically(path, render(draw, suffix, dpi=100))


def plot_curves(records: Sequence[dict[str, Any]], path: PathLike, title: str = "") -> None:
    """Writes a picture of the curves of a run; records: as in metrics.jsonl."""
    save_picture(partial(draw_curves, records=records, title=title), path)


def draw_curves(figure: Figure, records: Sequence[dict[str, Any]], title: str = "") -> None:
    """Draws losses, validation scores and the learning rate over the steps of a run."""

    series = partial(_series, records)
    figure.set_size_inches(8, 5.5)
    loss, rate = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    loss.plot(*series("loss"), label="training loss, with dropout", color=GREY)
    loss.plot(*series("validation_loss"), "o-", label="validation loss", color=BLUE)
    loss.set(ylabel="nats per token, smoothed as in training", title=_drawable(title))
    handles = list(loss.lines)
    if shown := _validation_score(records):
        (steps, values), name = series(shown[0]), shown[1]
        score = loss.twinx()
        score.grid(visible=False)
        handles += score.plot(steps, values, "s-", label=f"validation {name}", color=RED)
        top = 100 if 60 < max(values) <= 100 else 1.2 * max(values) + 1
        score.set(ylabel=name, ylim=(min(0, 1.2 * min(values)), top))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    rate.plot(*series("learning_rate"), color=GREEN)
    rate.set(xlabel="step", ylabel="learning rate")


def draw_curves_of_runs(figure: Figure, runs: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Draws the validation losses of several runs over their steps, and their scores beside them.

    runs: records of metrics.jsonl by the name of the run. The score is the first that one has.
    """
    shown = {"validation_loss": "validation loss, nats per token"}
    if score := next(filter(None, map(_validation_score, runs.values())), None):
        shown[score[0]] = f"validation {score[1]}"
    figure.set_size_inches(8, 3.4)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, (key, name) in zip(panels, shown.items(), strict=True):
        for run, records in runs.items():
            axes.plot(*_series(records, key), "o-", markersize=3, label=_drawable(run))
        axes.set(xlabel="step", ylabel=name)
    figure.legend(handles=list(panels[0].lines), loc="outside lower center", ncols=3)


def _series(records: Sequence[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Returns the steps and values of a metric where it was logged and is finite."""
    logged = {record["step"]: record.get(name) for record in records if name in record}
    finite = {step: x for step, x in logged.items() if x is not None and math.isfinite(x)}
    return list(finite), list(finite.values())


def _validation_score(records: Sequence[dict[str, Any]]) -> tuple[str, str] | None:
    """Returns (key, name) of the first score that a run has; None if it has none."""
    names = {key: METRICS[key].label for key in METRICS} | OTHER_SCORES
    keys = ((f"validation_{metric}", name) for metric, name in names.items())
    return next((pair for pair in keys if _series(records, pair[0])[0]), None)


def draw_checkpoints(figure: Figure, rows: Sequence[TaskScores]) -> None:
    """Draws the primary score and the perplexity of a test set over the steps of checkpoints.

    Means of several checkpoints are single points at their newest steps.
    """
    figure.set_size_inches(8, 2.8)
    keys = next(iter(rows[0].scores)), "perplexity"
    for axes, key, colour in zip(figure.subplots(1, 2), keys, (RED, BLUE), strict=True):
        for is_mean, style in ((False, "o-"), (True, "D")):
            points = sorted(
                (row.step, row.scores[key].value)
                for row in rows
                if row.step is not None and (row.num_averaged > 1) == is_mean
            )
            label = "mean of several" if is_mean else "one checkpoint"
            if points:
                axes.plot(*zip(*points, strict=True), style, label=label, color=colour)
        axes.set(title=f"test {rows[0].scores[key].name}", xlabel="step")
        if axes.lines:
            axes.legend()


def draw_attention(figure: Figure, attention: AttentionMap, title: str = "") -> None:
    """Draws weights from 0 to 1: what attends down, what it attends to across.

    One panel per layer, side by side; or one row of panels per layer, with a panel per head.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    shades = LinearSegmentedColormap.from_list("attention", [f"{BLUE}00", BLUE])
    sides = attention.source_pieces, attention.target_pieces
    source, target = ([_label(piece) for piece in side] for side in sides)
    has_heads = attention.weights.shape[1] > 1
    weights = attention.weights if has_heads else attention.weights.swapaxes(0, 1)
    num_rows, num_columns = weights.shape[:2]
    width, height = max(2.0, 0.26 * len(source)), max(1.5, 0.22 * len(target)) + 0.3
    figure.set_size_inches(width * num_columns + 1.2, height * num_rows + 1.3)
    panels = figure.subplots(num_rows, num_columns, sharex=True, sharey=True, squeeze=False)
    for (row, column), axes in np.ndenumerate(panels):
        axes.grid(visible=False)
        # As vectors: imshow makes a bitmap.
        axes.pcolormesh(weights[row, column], cmap=shades, vmin=0, vmax=1)
        axes.set_xticks(np.arange(len(source)) + 0.5, source, rotation=90)
        axes.set_yticks(np.arange(len(target)) + 0.5, target)
        axes.tick_params(length=0)
        name = f"layer {row + 1}, head {column + 1}" if has_heads else f"layer {column + 1}"
        axes.set_title(name)
    panels[0, 0].invert_yaxis()
    figure.supxlabel(f"{attention.axes[0]} →", fontsize=9)
    figure.supylabel(f"← {attention.axes[1]}", fontsize=9)
    scale = figure.colorbar(
        ScalarMappable(Normalize(0, 1), shades),
        ax=panels,
        boundaries=np.linspace(0, 1, 11),
        ticks=(0, 0.5, 1),
    )
    scale.set_label("attention weight")
    figure.suptitle(_drawable(title), fontsize=10)


def _drawable(text: str) -> str:
    """Returns a text without the characters that a picture, or an XML file, cannot hold."""
    return escaped(text).encode(errors="backslashreplace").decode()


def _label(piece: str) -> str:
    """Returns a piece as a short label; "▁" is missing in many fonts."""
    piece = _drawable(piece.replace("▁", "·"))
    return piece if len(piece) <= LONGEST_LABEL else piece[: LONGEST_LABEL - 1] + "…"
