"""Scores of another test set or search lie beside those of the run, and never replace them."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import transformer
from transformer.config import Config
from transformer.evaluation import evaluate, evaluation_set
from transformer.evaluation.results import (
    LONGEST_NAME,
    bounded_name,
    checksum,
    results_name,
    scored_otherwise,
)
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir


@pytest.fixture
def run(tmp_path):
    """A work directory with a configuration alone."""
    folder = tmp_path / "run"
    folder.mkdir()
    config = Config()
    config.data.corpus = str(tmp_path / "text")
    WorkDir(folder).save_config(config)
    return str(folder)


def name_of(run, monkeypatch, **options):
    """The folder of the results of `transformer.evaluate`, which here scores nothing."""
    names = []
    scores = SimpleNamespace(save=lambda workdir, name, **_: names.append(name) or Path(name))
    monkeypatch.setattr(evaluate, "each_checkpoint", lambda *_, **__: [None])
    monkeypatch.setattr(evaluate, "choose_checkpoints", lambda run, checkpoint: [checkpoint])
    monkeypatch.setattr(Translator, "from_checkpoints", lambda *_, **__: None)
    monkeypatch.setattr(evaluate, "evaluate_translator", lambda *_, **__: scores)
    transformer.evaluate(run, save=True, verbose=False, **options)
    return names[0]


def test_every_way_of_scoring_has_a_name_of_its_own(run, monkeypatch):
    """Catches a search, a checkpoint or another text that takes the name of the run's own."""
    pairs = [("a", "b")]
    monkeypatch.setattr(evaluation_set, "load_evaluation_pairs", lambda *_: pairs)
    decoding, others = Config().decoding, [
        {"beam_size": 1}, {"beam_size": 2}, {"alpha": 1.5}, {"sample": True},
        {"sample": True, "seed": 3}, {"mbr": 3}, {"checkpoint": "5"}, {"checkpoint": "average:2"},
        {"dtype": "bfloat16"}, {"corpus": "a/text"}, {"corpus": "b/text"}, {"ensemble": ["a/x"]},
        {"ensemble": ["b/x"]}, {"split": "validation"},
    ]  # fmt: skip
    own = {"beam_size": decoding.beam_size, "alpha": decoding.alpha, "dtype": "float32"}
    find = partial(name_of, run, monkeypatch)
    assert find() == find(**own, split="test") == "test"
    names = [find(**options) for options in others]
    assert len({"test", *names}) == len(names) + 1
    assert all(name == bounded_name(name) for name in names)
    assert names[0] == "test_beam_size_1" and names[7] == "test_checkpoint_average_2"


def test_the_text_of_the_run_is_its_own_by_any_path(run, tmp_path):
    """Catches a second folder for the same text, through a link."""
    (tmp_path / "text").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "text")
    assert scored_otherwise(run, "default", corpus=str(tmp_path / "link")) == {}
    assert scored_otherwise(run, "default", corpus=str(tmp_path)).keys() == {"corpus"}


def test_names_are_bounded_and_stay_different():
    """Catches a name that no file system takes, and two long ones that are cut to the same."""
    names = [results_name("x" * 300, {"seed": n}) for n in (1, 2)]
    assert names[0] != names[1] and max(map(len, names)) <= LONGEST_NAME + 9
    assert checksum(np.zeros(3)) != checksum(np.ones(3)) != checksum([1])
