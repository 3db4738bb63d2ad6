"""report.html: whole, by itself, and never fooled by what a translation spells."""

import math
import re
from html.parser import HTMLParser

import pytest

from tests.helpers.scored import CORPUS, evaluation
from transformer.evaluate import svg
from transformer.evaluate.checkpoint_series import checkpoint_row
from transformer.evaluate.compare_runs import compare
from transformer.evaluate.html_report import render

EVIL = '<script>alert("1")</script> & "quoted" <img src=x onerror=y>'
MAP = {
    "source": EVIL,
    "translation": EVIL,
    "pieces": (["▁a", EVIL, "</s>"], ["<b>", "</s>"]),
    "weights": [[[0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]] * 2,
}
CURVES = [{"step": s, "loss": 5 / s, "learning_rate": s * 1e-6} for s in range(1, 2000)]
CURVES += [{"step": 1000, "validation_loss": 1.0, "validation_bleu": 12.0}]
VOID = {"meta", "br", "line", "rect", "polyline", "circle", "i"}


class Page(HTMLParser):
    """The tags of a page, which must nest, and its text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID - {"i"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def text():
    rows = [*CORPUS, (EVIL, EVIL, EVIL), (EVIL, "nichts", EVIL)]
    ours = evaluation(rows, checkpoint=EVIL, maps=[MAP])
    theirs = evaluation([(s, r, t[::-1]) for s, r, t in rows], checkpoint="best (10)")
    series = [checkpoint_row(theirs), checkpoint_row(ours)]
    comparison = compare((EVIL, "runs/other"), ours, theirs)
    return render(ours, EVIL, curves=CURVES, checkpoints=series, comparison=comparison)


def test_nothing_of_a_text_becomes_a_tag(text):
    """Catches one place of many in which a source, a piece, a name or a path is not escaped."""
    page = Page(text)
    assert not {"script", "img", "b>"} & {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.text.count("<script>") > 10


def test_nothing_is_fetched(text):
    """Catches a font, script or picture from elsewhere: the page is to be mailed and archived."""
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bsrc=x(?! onerror)", text)
    assert {"href", "src", "srcset"}.isdisjoint(
        name for _, attributes in Page(text).tags for name in attributes
    )


def test_a_whole_page_has_every_part(text):
    """Catches a section that is left out or comes without its picture."""
    titles = re.findall("<h2>(.*?)</h2>", text)
    assert titles == [
        "Comparison", "Checkpoints", "By length of the source", "Outputs", "Training", "Attention",
        "Segments that differ most", "Worst segments", "Best segments", "How it is counted",
    ]  # fmt: skip
    assert text.count('<svg class="chart"') == 2 + 3
    assert text.count('<svg class="map"') == 2
    assert "nrefs:1|bs:1000" in text and "eos:yes" in text and "ar:10000" in text


def test_a_bare_page_has_no_empty_part():
    """Catches the headline of curves or maps that a run does not have."""
    text = render(evaluation(CORPUS[:1]), "runs/x")
    Page(text)
    assert re.findall("<h2>(.*?)</h2>", text) == [
        "By length of the source", "Outputs", "Worst segments", "How it is counted",
    ]  # fmt: skip


def test_charts_of_whatever_was_logged():
    """Catches a single point, a flat line, and numbers that are not finite: a division by zero."""
    for points in ([], [(1, math.nan)], [(1, None)]):
        assert svg.chart([svg.Line("x", "a", points)], "y") == ""
    for points in ([(7, 0.0)], [(7, 3.0), (8, 3.0)], [(1, -1e9), (2, math.inf), (10**6, 1e-9)]):
        found = svg.chart([svg.Line("x", "a", points)], "y")
        Page(found)
        numbers = [float(n) for n in re.findall(r'(?:cx|cy)="([^"]+)"', found)]
        assert numbers and all(0 <= number <= svg.WIDTH for number in numbers)


def test_a_long_line_is_thinned_but_keeps_its_end():
    """Catches megabytes of points, and a curve that stops before its last step."""
    line = svg.Line("x", "a", [(step, 1.0 * step) for step in range(100_001)])
    drawn = re.search('points="([^"]+)"', svg.chart([line], "y"))[1].split()
    assert len(drawn) <= svg.MOST_POINTS + 1
    right = svg.WIDTH - svg.RIGHT
    assert float(drawn[-1].split(",")[0]) == pytest.approx(right)


def test_a_map_shades_what_the_decoder_looked_at():
    """Catches rows and columns the wrong way round."""
    found = svg.weight_map(["s1", "s2", "s3"], ["t1", "t2"], [[0, 0, 0.5], [0.25, 0, 0]], "layer 1")
    cells = re.findall(r'x="([\d.]+)" y="([\d.]+)" fill-opacity="([\d.]+)"', found)
    (x1, y1, dark), (x2, y2, light) = (tuple(map(float, cell)) for cell in cells)
    assert (dark, light) == (1.0, 0.5)
    assert x1 - x2 == 2 * svg.CELL and y2 - y1 == svg.CELL
