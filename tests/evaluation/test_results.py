"""Scores of another test set or search lie beside those of the run, and never replace them."""

import numpy as np
import pytest

from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.score_translation import read_test_set, results_folder
from transformer.config import Config
from transformer.evaluation.results import (
    LONGEST_NAME,
    bounded_name,
    checksum,
    results_name,
    scored_otherwise,
)
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


def name_of(run, **flags):
    flags = EvaluateFlags(workdir=run, **flags)
    return results_folder(flags, read_test_set(flags, Config().data))


@pytest.mark.long
def test_every_way_of_scoring_has_a_name_of_its_own(run):
    """Catches a search, a checkpoint or another text that takes the name of the run's own."""
    decoding, others = Config().decoding, [
        {"beam_size": 1}, {"beam_size": 2}, {"alpha": 1.5}, {"sample": True},
        {"sample": True, "seed": 3}, {"mbr": 3}, {"checkpoints": "5"}, {"checkpoints": "average:2"},
        {"dtype": "bfloat16"}, {"corpus": "a/text"}, {"corpus": "b/text"}, {"ensemble": "a/x"},
        {"ensemble": "b/x"}, {"split": "validation"},
    ]  # fmt: skip
    own = {"beam_size": decoding.beam_size, "alpha": decoding.alpha, "dtype": "float32"}
    assert name_of(run) == name_of(run, **own, split="test") == "test"
    names = [name_of(run, **flags) for flags in others]
    assert len({"test", *names}) == len(names) + 1
    assert all(name == bounded_name(name) for name in names)
    assert names[0] == "test_beam_size_1" and names[7] == "test_checkpoint_average_2"


def test_another_search_or_checkpoint_is_part_of_the_name(run):
    """Catches scores of another search in the place of the run's own."""
    how = {"checkpoint": "5", "dtype": "bfloat16", "beam_size": 1}
    assert scored_otherwise(run, "5", dtype="bfloat16", search={"beam_size": 1}) == how
    assert results_name("test", how) == "test_checkpoint_5_dtype_bfloat16_beam_size_1"


def test_files_of_one_stem_have_names_of_their_own(run, tmp_path):
    """Catches test.en of another folder, or with other references, under results/test."""
    names = set()
    for folder, source, reference in (("a", "1", "2"), ("b", "3", "2"), ("c", "1", "4")):
        (tmp_path / folder).mkdir()
        for side, text in (("en", source), ("de", reference)):
            (tmp_path / folder / f"test.{side}").write_text(f"{text}\n")
        files = (str(tmp_path / folder / f"test.{side}") for side in ("en", "de"))
        flags = dict(zip(("input", "reference"), files, strict=True))
        assert name_of(run, **flags) == name_of(run, **flags)
        names.add(name_of(run, **flags))
    assert len(names) == 3 and all(name.startswith("test_") for name in names)


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
