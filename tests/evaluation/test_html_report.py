"""report.html is whole, needs nothing else, and is never fooled by what a translation spells."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.helpers.scored import CORPUS, compared, evaluation
from transformer.config import Config
from transformer.evaluation.comparison import compare_runs
from transformer.evaluation.html_report import origin, render, render_comparison
from transformer.evaluation.plots import AttentionMap
from transformer.workdir import WorkDir

pytest.importorskip("matplotlib", reason="pictures need matplotlib")

EVIL = '<script>alert("1")</script> & "quoted" <img src=x onerror=y> $ id="z"'
MAP = AttentionMap(
    source=EVIL,
    translation=EVIL,
    source_pieces=["▁a", EVIL, "</s>"],
    target_pieces=["<b>", "</s>"],
    weights=np.array([[[[0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]]] * 2),
)
CURVES = [{"step": s, "loss": 5 / s, "learning_rate": s * 1e-6} for s in range(1, 2000)]
CURVES += [{"step": 1000, "validation_loss": 1.0, "validation_bleu": 12.0}]


class Page(HTMLParser):
    """The tags of a page, which must nest, and its text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def save_curves(folder):
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in CURVES))
    return WorkDir(folder)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    rows = [*CORPUS * 9, (EVIL, EVIL, EVIL), (EVIL, "nichts", EVIL)]
    ours = evaluation(rows, checkpoint=EVIL, maps=[MAP, MAP])
    theirs = evaluation([(s, r, t[::-1]) for s, r, t in rows], checkpoint="best (10)")
    return render(ours, save_curves(tmp_path_factory.mktemp("runs") / EVIL), [theirs, ours])


@pytest.fixture(scope="module")
def comparison():
    rows = [*CORPUS, (EVIL, EVIL, EVIL), (EVIL, "nichts", EVIL)]
    runs = [
        compared(f"runs/{EVIL}{step}", evaluation(side), tokenizer__model=f"{step}{EVIL}")
        for step, side in ((1, rows), (-1, [(s, r, t[::-1]) for s, r, t in rows]))
    ]
    return render_comparison(compare_runs(runs))


def headings(text):
    return re.findall("<h2>(.*?)</h2>", text)


def test_a_page_is_safe_and_needs_nothing_else(text, comparison):
    """Catches one position of many at which a source, a token, a name or a path is not escaped.
    Also a font, script or picture from elsewhere, as the page is to be mailed and archived, two
    pictures that share a clipping path, and a reference to the one not renamed."""
    page = Page(text)
    for shown in (page, Page(comparison)):
        assert not {"script", "img", "b>"} & {tag for tag, _ in shown.tags}
        assert not any(name.startswith("on") for _, attributes in shown.tags for name in attributes)
        assert shown.text.count("<script>") > 6
    texts = [attributes for tag, attributes in page.tags if tag == "dd"]  # perhaps Arabic
    assert {(a["dir"], a["lang"]) for a in texts} == {("auto", "en"), ("auto", "de")}
    assert not re.search(r"url\((?!#)|@import|\bsrc=x(?! onerror)", text)
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {"href", "src", "srcset"} & names
    references = [attributes.get("xlink:href", "#") for _, attributes in page.tags]
    assert all(reference.startswith("#") for reference in references)
    assert set(re.findall(r'https?:[^"]*', text)) == {  # names, which nobody opens
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    policies = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(set(ids)) == len(ids) > 10
    assert {a or b for a, b in re.findall(r'href="#([^"]+)|url\(#([^)]+)', text)} <= set(ids)


def test_a_whole_page_has_every_part(text, comparison):
    """Catches a section that is left out or comes without its picture."""
    assert headings(text) == [
        "Checkpoints", "By length of the source", "Outputs", "Training", "Attention",
        "Worst segments", "Best segments", "How it is counted",
    ]  # fmt: skip
    assert text.count("<svg xmlns") == 1 + 1 + 2
    page = Page(text).text
    for shown in ("validation BLEU", "learning rate", "test BLEU", "test perplexity", "layer 2"):
        assert shown in page
    assert "nrefs:1|bs:20" in text and "eos:yes" in text
    assert len(re.findall(r"<small>± [\d.]+</small>", text)) > 10
    first, second, _, *last = headings(comparison)
    assert [first, second] == ["Paired tests", "Settings that differ"]
    assert last == ["The runs", "How it is counted"]
    assert "nrefs:1|bs:1000" in comparison and "ar:10000" in comparison
    assert "--config.tokenizer.model" in comparison and "<mark>" in comparison


def test_a_comparison_shows_the_curves_of_its_runs(tmp_path):
    """Catches a picture that only a comparison of given scores lacks."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "metrics.jsonl").write_text("\n".join(map(json.dumps, CURVES)))
    runs = [compared(str(tmp_path / name), evaluation()) for name in "ab"]
    page = render_comparison(compare_runs(runs))
    assert "Training" in headings(page) and "validation BLEU" in Page(page).text


def test_the_run_is_described(tmp_path):
    """Catches a report that cannot say which settings and versions its scores are of, and one with
    the command that resumed the run for that which made it."""
    workdir = WorkDir(tmp_path)
    workdir.save_config(Config().with_values({"model.d_ff": 7, "tokenizer.joiner": ""}))
    start = {"time": "2026-11-22T06:31:07Z", "devices": {"cpu": 2}, "command": ["x", "<y>"]}
    resumed = start | {"packages": {"jax": "1"}, "command": ["resume"]}
    (tmp_path / "environment.json").write_text(json.dumps([start | {"time": "before"}, resumed]))
    shown = Page(render(evaluation(), workdir)).text
    for text in ("2026-11-22T06:31:07Z, 2 starts", "2 × cpu", "jax 1", "x '<y>'", "(empty)"):
        assert text in shown
    assert "resume" not in shown and "before" not in shown
    assert re.search(r"--config\.model\.d_ff\s*7\s*2048", shown) and "num_heads" not in shown
    (tmp_path / "environment.json").write_text("[")
    assert origin(workdir) == {}


def test_a_page_has_no_empty_part(monkeypatch, tmp_path):
    """Catches headlines of what a run has not, and scores or a hint lost without matplotlib."""
    bare = ["By length of the source", "Outputs", "Worst segments", "How it is counted"]
    assert headings(render(evaluation(CORPUS[:1]), WorkDir(tmp_path))) == bare
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = evaluation(maps=[MAP])
    text = render(result, save_curves(tmp_path / "run"), [result] * 2)
    assert headings(text)[:4] == ["Checkpoints", *bare[:2], "Pictures"]
    assert "pip install matplotlib" in Page(text).text


def test_words_that_the_reference_lacks_are_marked(tmp_path):
    """Catches the wrong side marked, and a word that moved taken for one that is right."""
    rows = [("s", "the blue car", "the <red> car stops"), ("s", "a b", "")]
    text = render(evaluation(rows), WorkDir(tmp_path))
    assert re.findall("<mark>(.*?)</mark>", text) == ["&lt;red&gt;", "stops"]
    assert "(nothing)" in text
