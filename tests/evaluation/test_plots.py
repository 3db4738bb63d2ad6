"""Pictures are drawn from whatever a run has logged so far."""

import math
import warnings
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.helpers.scored import evaluation
from transformer.evaluation import plots
from transformer.evaluation.plots import AttentionMap
from transformer.evaluation.scores import TaskScores

matplotlib = pytest.importorskip("matplotlib.figure", reason="pictures need matplotlib")


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 2000


def drawn_lines(draw):
    """[(x values, y values)] of every line with points that `draw` draws."""
    found = []

    def keep_lines(figure):
        draw(figure)
        lines = [line for axes in figure.axes for line in axes.lines]
        found.extend([*map(list, line.get_data())] for line in lines if len(line.get_xdata()))

    plots.render(keep_lines, "svg")
    return found


def test_curves_of_a_whole_run_and_of_one_that_has_just_begun(tmp_path):
    """Catches a picture that needs an evaluation, or any step at all, or that a NaN costs, and
    megabytes of points, many for each pixel."""
    records = [{"step": s, "loss": 5.0 / s, "learning_rate": s * 1e-4} for s in range(1, 9)]
    records += [{"step": 9, "loss": loss} for loss in (math.nan, math.inf, None)]
    evaluated = [{"step": 8, "validation_loss": 1.0, "validation_bleu": 12.0}]
    for number, some in enumerate(([], records + evaluated)):
        path = tmp_path / f"{number}.png"
        plots.plot_curves(some, path, "costs $5")
        assert is_png(path)
    loss, _, rate, score = drawn_lines(partial(plots.draw_curves, records=records + evaluated))
    assert loss == [list(range(1, 9)), [5.0 / s for s in range(1, 9)]]
    assert score == [[8], [12.0]] and rate[1][-1] == 8e-4
    noise = np.random.default_rng(0).normal(size=100_000)
    records = [{"step": step, "loss": value} for step, value in enumerate(noise.tolist())]
    assert len(plots.render_svg(partial(plots.draw_curves, records=records), "x")) < 80_000


def test_every_score_lies_within_its_axis():
    """Catches an error rate above 100 that is cut off, and a score that is not drawn at all."""
    for name, values in (("ter", [140.0, 95.0]), ("bleu", [3.0, 61.0]), ("f1", [-20.0, 5.0])):
        figure = matplotlib.Figure()
        plots.draw_curves(figure, [{"step": s, f"validation_{name}": values[s]} for s in (0, 1)])
        bottom, top = figure.axes[-1].get_ylim()
        assert bottom <= min(values) and max(values) < top


def test_means_of_checkpoints_are_points_beside_the_curve():
    """Catches a mean that is joined to the curve, and steps in the order of the command line."""
    scores = evaluation(num_bootstrap=1).scores
    rows = [
        TaskScores(checkpoint="c", step=step, num_averaged=count, corpus="own", scores=scores)
        for step, count in ((9, 1), (5, 1), (9, 3), (None, 1))
    ]
    lines = drawn_lines(partial(plots.draw_checkpoints, rows=rows))
    assert [steps for steps, _ in lines] == [[5, 9], [9]] * 2


@pytest.mark.parametrize(
    "text", ["costs $5 and $\\frac_x^2", "a\x1b[2J\r\x00\u202e\udc9b</text><script>"]
)
def test_texts_that_a_picture_would_misread(text, tmp_path):
    """Catches a $ that begins a formula, an SVG that is no XML, and an error of matplotlib's."""
    attention = AttentionMap(text, text, [text[:9], "▁b"], ["é"], np.ones((1, 1, 1, 2)) / 2)
    draw = partial(plots.draw_attention, attention=attention, title=text)
    plots.save_picture(draw, tmp_path / "map.svg")
    shown = list(ElementTree.parse(tmp_path / "map.svg").getroot().itertext())
    safe = text.encode("unicode_escape").decode().replace("\\\\", "\\")
    assert any(safe in line for line in shown)
    plots.save_picture(draw, tmp_path / "map.png")
    plots.plot_curves([{"step": 1, "loss": 2.0}], tmp_path / "curves.png", text)
    assert is_png(tmp_path / "map.png") and is_png(tmp_path / "curves.png")


def test_characters_without_a_glyph_are_warned_of():
    """Catches boxes in silence, and a warning for an .svg that a page draws."""
    draw = partial(plots.draw_curves, records=[], title="\U000f0001")  # private: in no font
    with pytest.warns(UserWarning, match="Glyph 983041 .* missing"):
        plots.render(draw, "png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.render(draw, "svg")


def test_curves_of_several_runs_are_in_one_picture():
    """Catches a run that is left out, and a score that is not what the other run has."""
    runs = {
        name: [{"step": step, "validation_loss": 2.0, "validation_bleu": bleu}, {"step": 9}]
        for name, step, bleu in (("a", 3, 20.0), ("$b$", 5, 30.0))
    }
    figure = matplotlib.Figure()
    plots.draw_curves_of_runs(figure, runs | {"empty": []})
    loss, score = figure.axes
    assert [line.get_label() for line in loss.lines] == ["a", "$b$", "empty"]
    assert [line.get_xydata().tolist() for line in score.lines] == [[[3, 20]], [[5, 30]], []]
    assert score.get_ylabel() == "validation BLEU"


def test_a_map_shades_what_the_decoder_attended_to():
    """Catches rows and columns the wrong way round, and a map drawn upside down."""
    weights = np.array([[[[0, 0, 0.5], [1, 0, 0]]]])
    figure = matplotlib.Figure()
    plots.draw_attention(figure, AttentionMap("s", "t", ["s1", "s2", "s3"], ["t1", "t2"], weights))
    axes, scale = figure.axes
    (mesh,) = axes.collections
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("source →", "← translation")
    assert scale.get_ylabel() == "attention weight" and scale.get_ylim() == (0, 1)
    np.testing.assert_array_equal(mesh.get_array().reshape(2, 3), weights[0, 0])
    assert axes.yaxis_inverted() and not axes.xaxis_inverted()
    for axis, labels in ((axes.xaxis, ["s1", "s2", "s3"]), (axes.yaxis, ["t1", "t2"])):
        assert [label.get_text() for label in axis.get_ticklabels()] == labels
        assert list(axis.get_ticklocs()) == [0.5, 1.5, 2.5][: len(labels)]
