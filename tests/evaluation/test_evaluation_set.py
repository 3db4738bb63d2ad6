"""What is scored: files, and test sets that sacrebleu knows by name."""

import urllib.error
import urllib.request
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from sacrebleu.dataset import DATASETS

import transformer
from tests.helpers.random_runs import write_run
from transformer.cli.commands.evaluate import EvaluateFlags
from transformer.evaluation.evaluation_set import read_files, read_published
from transformer.workdir import WorkDir


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Files with a letter in each line, in the current folder."""
    monkeypatch.chdir(tmp_path)
    lines = {"in": "abc", "a": "def", "b": "ghi", "c,d": "def", "e": "de"}
    for name, letters in lines.items():
        (tmp_path / name).write_text("".join(f"{letter}\n" for letter in letters))


def read(reference):
    """The sources of --input=in, and their references."""
    flags = EvaluateFlags(input="in", reference=reference)
    flags.validate("translation")
    return read_files(flags.scored["files"])[2:]


def test_files_with_commas_are_several_references():
    """Catches a second reference file that is not read, or one that is shorter."""
    assert read("a,b") == (["a", "b", "c"], [("d", "g"), ("e", "h"), ("f", "i")])
    assert read("c,d") == (["a", "b", "c"], [("d",), ("e",), ("f",)])
    with pytest.raises(ValueError, match="There are 3 sources and 2 references; they must pair"):
        read("a,e")
    with pytest.raises(ValueError, match=r"--reference must be a file .*nothing does not exist"):
        read("a,nothing")


def test_files_of_one_stem_have_names_of_their_own(tmp_path):
    """Catches test.en of another folder, or with other references, under results/test."""
    names = set()
    for folder, source, reference in (("x", "1", "2"), ("y", "3", "2"), ("z", "1", "4")):
        (tmp_path / folder).mkdir()
        sides = [tmp_path / folder / "test.en", tmp_path / folder / "test.de"]
        for side, text in zip(sides, (source, reference), strict=True):
            side.write_text(f"{text}\n")
        assert read_files(sides) == read_files(sides)
        names.add(read_files(sides).name)
    assert len(names) == 3 and all(name.startswith("test_") for name in names)


def test_a_published_test_set_comes_with_its_references(tmp_path, monkeypatch):
    """Catches a second reference of WMT that is left out, the wrong direction, and a traceback of
    urllib, or an empty test set, on a machine without a network."""
    files = {"get_source_file": lambda _: "in", "get_reference_files": lambda _: ["a", "b"]}
    published = SimpleNamespace(langpairs=["en-de"], **files)
    monkeypatch.setitem(DATASETS, "own/full", published)
    found = read_published("own/full", "en-de")
    assert found[2:] == read("a,b") and found.name == "own/full"
    with pytest.raises(ValueError, match=r"that sacrebleu has for en-de \(.*wmt14/full.*not 'wmt'"):
        read_published("wmt", "en-de")
    with pytest.raises(ValueError, match=r"for en-xx \(none\), not"):
        read_published("own/full", "en-xx")
    no_network = MagicMock(side_effect=urllib.error.URLError("no route to host"))
    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    for name in ("_outdir", "_rawdir"):
        monkeypatch.setattr(DATASETS["wmt17"], name, str(tmp_path))
    with pytest.raises(ValueError, match=r"wmt17 cannot be downloaded .*no route to host"):
        read_published("wmt17", "en-de")


def test_the_corpus_of_config_json_is_scored(tmp_path):
    """Catches a split of the corpus that the checkpoint notes, where config.json names another."""
    run = write_run(tmp_path / "run", "classification")
    (tmp_path / "test.tsv").write_text("no\tw1 w2\nyes\tw3\nmaybe\tw4\n")
    config = WorkDir(run).load_config()
    assert config.data.corpus == "embedded"  # as its checkpoint notes
    WorkDir(run).save_config(config.with_values({"data.corpus": str(tmp_path)}))
    result = transformer.evaluate(run, verbose=False)
    assert result.corpus == f"{tmp_path} test"
    assert result.scores["accuracy"].num_sentences == 3
