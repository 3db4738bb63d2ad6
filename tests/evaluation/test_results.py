"""Scores of another test set or search lie beside those of the run, and never replace them."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np

import transformer
from transformer.config import Config
from transformer.evaluation import evaluate, evaluation_set
from transformer.evaluation.evaluation_set import (
    LONGEST_NAME,
    bounded_name,
    checksum,
    results_name,
)
from transformer.workdir import WorkDir


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
    """Catches an argument of `transformer.evaluate` that the name is not told."""
    names = []
    scores = SimpleNamespace(save=lambda run, name, scores: names.append(name) or Path(name))
    monkeypatch.setattr(evaluate, "_score", lambda *_, **__: [scores])
    monkeypatch.setattr(evaluation_set, "load_evaluation_pairs", lambda *_: [("a", "b")])
    WorkDir(tmp_path).save_config(Config())
    how = {"corpus": "a/text", "dtype": "bfloat16", "ensemble": ["a/x"]}
    options = {"split": "validation", "checkpoint": "5", "beam_size": 1, **how}
    transformer.evaluate(tmp_path, save=True, verbose=False, **options)
    assert names == [results_name(Config(), "validation", "5", search={"beam_size": 1}, **how)]
