"""What is scored: files, and test sets that sacrebleu knows by name; and where scores are kept."""

import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from sacrebleu.dataset import DATASETS

import transformer
from tests.helpers.random_runs import write_run
from transformer.cli.commands.evaluate import EvaluateFlags
from transformer.config import Config
from transformer.evaluation import evaluate, evaluation_set
from transformer.evaluation.evaluation_set import (
    LONGEST_NAME,
    bounded_name,
    checksum,
    read_files,
    read_published,
    results_name,
)
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


def test_every_way_of_scoring_has_a_name_of_its_own(tmp_path):
    """Catches a search, a checkpoint or another text that takes the name of the run's own. Also a
    second folder for the same text, through a link, a name that no file system takes, and two long
    ones that are cut to the same."""
    config = Config().with_values({"data.corpus": str(tmp_path / "text")})
    (tmp_path / "text").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "text")
    searches = [
        {"beam_size": 1}, {"beam_size": 2}, {"alpha": 1.5}, {"sample": True},
        {"sample": True, "seed": 3}, {"mbr": 3},
    ]  # fmt: skip
    others = [{"search": search} for search in searches] + [
        {"checkpoint": "5"}, {"checkpoint": "average:2"}, {"dtype": "bfloat16"},
        {"corpus": "a/text"}, {"corpus": "b/text"}, {"ensemble": ["a/x"]}, {"ensemble": ["b/x"]},
    ]  # fmt: skip
    own = {"beam_size": config.decoding.beam_size, "alpha": config.decoding.alpha, "metrics": ["x"]}
    link = str(tmp_path / "link")
    assert results_name(config, "test") == "test"
    assert results_name(config, "test", dtype="float32", corpus=link, search=own) == "test"
    names = [results_name(config, "test", **how) for how in others]
    assert len({"test", *names, results_name(config, "validation")}) == len(names) + 2
    assert all(name == bounded_name(name) for name in names)
    assert names[0] == "test_beam_size_1" and names[7] == "test_checkpoint_average_2"
    long = [results_name(config, "x" * 300, search={"seed": n}) for n in (1, 2)]
    assert long[0] != long[1] and max(map(len, long)) <= LONGEST_NAME + 9
    assert checksum(np.zeros(3)) != checksum(np.ones(3)) != checksum([1])


def test_scores_are_kept_under_that_name(tmp_path, monkeypatch):
    """Catches an argument of `transformer.evaluate` that the name is not told, and a comparison
    that takes the place of one with another checkpoint, or another run of that name."""
    names = []
    scores = MagicMock(save=lambda run, name, *_: names.append(name) or Path(name))
    monkeypatch.setattr(evaluate, "_score", lambda *_, **__: [scores])
    monkeypatch.setattr(evaluate, "open_for_reading", MagicMock())
    monkeypatch.setattr(evaluate, "compared_run", MagicMock())
    monkeypatch.setattr(evaluate, "compare_runs", lambda runs: scores)
    monkeypatch.setattr(evaluation_set, "load_evaluation_pairs", lambda *_: [("a", "b")])
    WorkDir(tmp_path).save_config(Config())
    how = {"corpus": "a/text", "dtype": "bfloat16", "ensemble": ["a/x"]}
    options = {"split": "validation", "checkpoint": "5", "beam_size": 1, **how}
    transformer.evaluate(tmp_path, save=True, verbose=False, **options)
    assert names == [results_name(Config(), "validation", "5", search={"beam_size": 1}, **how)]
    for folder in "12":
        (tmp_path / folder / "x").mkdir(parents=True)
        WorkDir(tmp_path / folder / "x").save_config(Config())
    for other in ("1/x@5", "1/x@6", "2/x@6"):
        transformer.compare(tmp_path, [other], save=True, verbose=False)
    assert len(set(names)) == 4 and names[1] == "compare_test_with_1_x_5"
