"""Several references, metrics that are asked for by name, and test sets with a name."""

import json
import urllib.error
import urllib.request

import pytest
import sacrebleu
from sacrebleu.dataset import DATASETS

from tests.helpers.scored import CORPUS, evaluation
from transformer.cli.commands.evaluate import EvaluateFlags
from transformer.evaluation import metrics
from transformer.evaluation.evaluation_set import read_files, read_published
from transformer.evaluation.metrics import check_metrics, score_by
from transformer.evaluation.segments import Segment, text_sides
from transformer.workdir import WorkDir

FIRST = ["the cat sat on the mat today", "a dark and stormy night", "hello"]
SECOND = ["today a cat was sitting on the mat", "the night was dark", "hi there"]
OURS = ["a cat sat on the mat", "a dark night", "hi there"]
BOTH = list(zip(FIRST, SECOND, strict=True))

FAKE_COMET = """#!/bin/sh
paste source translation reference > "{seen}"
echo "$9" > "{seen}.model"
[ "$9" = bad ] && echo "no such model" >&2 && exit 1
python3 - <<'END'
import json
names = ("source", "translation", "reference")
rows = [dict(zip(names, row)) for row in zip(*(open(n).read().splitlines() for n in names))]
scores = [dict(row, COMET=len(row["reference"]) / 100) for row in rows]
json.dump(dict(translation=scores), open("scores", "w"))
END
"""


@pytest.fixture
def comet(tmp_path, monkeypatch):
    """A program comet-score, which scores a line by the length of its reference."""
    program = tmp_path / "comet-score"
    program.write_text(FAKE_COMET.replace("{seen}", str(tmp_path / "seen")).replace("$9", "${11}"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.mark.parametrize("name", ["bleu", "ter"])
def test_a_second_reference_counts_as_in_sacrebleu(name):
    """Catches references that are concatenated, averaged, or paired with other lines."""
    score = metrics.score_by(name, OURS * 20, BOTH * 20, "en-de", num_bootstrap=50)
    function = {"bleu": sacrebleu.corpus_bleu, "ter": sacrebleu.corpus_ter}[name]
    assert score.value == pytest.approx(function(OURS, [FIRST, SECOND]).score)
    assert "nrefs:2" in score.signature and score.interval > 0
    alone = metrics.score_by(name, OURS, FIRST, "en-de").value
    is_better = score.value > alone if metrics.METRICS[name].higher_is_better else alone
    assert is_better and metrics.score_by(name, OURS, [(r,) for r in FIRST], "x").value == alone


def test_the_best_reference_of_a_line_decides():
    """Catches a mean over references, and the worst of an error rate."""
    chrf = metrics.sentence_chrf(OURS, BOTH)
    alone = [metrics.sentence_chrf(OURS, side) for side in (FIRST, SECOND)]
    assert chrf == [max(pair) for pair in zip(*alone, strict=True)]
    assert metrics.score_by("line_error_rate", OURS, BOTH, "x").value == pytest.approx(200 / 3)
    mixed = [FIRST[0], BOTH[1], SECOND[2]]  # another number of them for each line
    assert "nrefs:var" in metrics.bleu(OURS, mixed, "x").signature


def test_all_references_reach_the_scores_and_the_files(tmp_path):
    """Catches a report that has read one reference, and a file of segments that lost the other."""
    rows = [(source, (f"{reference} .", reference), ours) for source, reference, ours in CORPUS]
    several, one = evaluation(rows, further_metrics=["ter"]), evaluation()
    translations, references = text_sides(several.segments)
    assert several.primary == metrics.bleu(translations, references, "en-de", num_bootstrap=20)
    assert several.scores["ter"].name == "TER" and "ter" not in one.scores
    folder = several.save(WorkDir(tmp_path), "x").parent
    rows = (folder / "segments.jsonl").read_text().splitlines()
    segments = [Segment(**json.loads(row)) for row in rows]
    assert text_sides(segments) == text_sides(several.segments)
    assert "other_references" not in one.segments[0].to_json()
    assert json.loads((folder / "report.json").read_text())["ter"]["value"] > 0


def test_files_with_commas_are_several_references(tmp_path):
    """Catches a third reference file that is not read, or one that is shorter."""
    for name, lines in {"in": OURS, "a": FIRST, "b": SECOND, "c,d": FIRST, "e": FIRST[:2]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))

    def pairs(*names):
        files = ",".join(str(tmp_path / name) for name in names)
        flags = EvaluateFlags(input=str(tmp_path / "in"), reference=files)
        flags.check("translation")
        return read_files(flags.files).pairs

    assert pairs("a", "b") == list(zip(OURS, BOTH, strict=True))
    assert pairs("c,d") == [(ours, (first,)) for ours, first in zip(OURS, FIRST, strict=True)]
    with pytest.raises(ValueError, match="in has 3 lines and its references 2; they must pair"):
        pairs("a", "e")
    with pytest.raises(ValueError, match=r"--reference must be a file .*nothing does not exist"):
        pairs("a", "nothing")


def test_comet_is_run_beside_us_on_every_reference(comet, monkeypatch):
    """Catches lines that slip by a line break in one of them, and a reference without a score."""
    check_metrics(["comet", "comet:Own/model", "ter"])
    sources = ["one\u2028two", "three", "four\r"]
    score = score_by("comet:Own/model", OURS, BOTH, "en-de", sources=sources)
    lengths = [(len(a) + len(b)) / 2 for a, b in BOTH]
    assert score.value == pytest.approx(sum(lengths) / 3)
    assert "model:Own/model" in score.signature.split("|")
    seen = [line.split("\t") for line in (comet / "seen").read_text().splitlines()]
    assert seen[1] == ["one two", OURS[0], SECOND[0]] and len(seen) == 6
    (comet / "own.ckpt").touch()
    monkeypatch.chdir(comet)
    score_by("comet:own.ckpt", OURS, FIRST, "en-de", sources=sources)
    assert (comet / "seen.model").read_text() == f"{comet / 'own.ckpt'}\n"
    both = evaluation(further_metrics=["comet", "comet:own.ckpt"]).scores
    assert [*both][-2:] == ["comet", "comet:own.ckpt"]
    with pytest.raises(ValueError, match="comet-score with the model bad failed: no such model"):
        score_by("comet:bad", OURS, FIRST, "en-de", sources=sources)


def test_unknown_and_missing_metrics_are_refused(monkeypatch):
    """Catches a metric that is missed only when everything is translated."""
    with pytest.raises(ValueError, match="bleu, line_error_rate, ter, comet or comet:MODEL, not"):
        check_metrics(["meteor"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="pipx install unbabel-comet"):
        check_metrics(["comet"])


class Published:
    """A test set that sacrebleu has downloaded."""

    def __init__(self, folder):
        self.langpairs = {"en-de": []}
        for name, lines in {"src": OURS, "ref:A": FIRST, "ref:B": SECOND}.items():
            (folder / name).write_text("".join(f"{line}\n" for line in lines))
        self.folder = folder

    def get_source_file(self, direction):
        return str(self.folder / "src")

    def get_reference_files(self, direction):
        return [str(self.folder / name) for name in ("ref:A", "ref:B")]


def test_a_published_test_set_comes_with_its_references(tmp_path, monkeypatch):
    """Catches a second reference of WMT that is left out, and the wrong direction."""
    monkeypatch.setitem(DATASETS, "own/full", Published(tmp_path))
    found = read_published("own/full", "en-de")
    assert found.pairs == list(zip(OURS, BOTH, strict=True)) and found.name == "own/full"
    with pytest.raises(ValueError, match=r"that sacrebleu has for en-de \(.*wmt14/full.*not 'wmt'"):
        read_published("wmt", "en-de")
    with pytest.raises(ValueError, match=r"for en-xx \(none\), not"):
        read_published("own/full", "en-xx")


def test_no_network_is_one_sentence(tmp_path, monkeypatch):
    """Catches a traceback of urllib, or an empty test set, on a machine without a network."""

    def fail(*_):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    for name in ("_outdir", "_rawdir"):
        monkeypatch.setattr(DATASETS["wmt17"], name, str(tmp_path))
    with pytest.raises(ValueError, match=r"wmt17 cannot be downloaded .*no route to host"):
        read_published("wmt17", "en-de")
