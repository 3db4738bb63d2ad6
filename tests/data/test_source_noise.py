"""source_noise: pairs of a damaged text with itself, the same wherever they are made."""

import gzip
from dataclasses import replace

import pytest

from transformer.config import Config
from transformer.data.corpora.source_noise import LETTERS_PER_ERROR, misspell, remove_accents
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared.cache import corpus_recipe

TEXT = "Two young, White males are outside near many bushes, since 2001."


def lines(number):
    return [f"{TEXT} {i}" for i in range(number)]


def test_letters_are_damaged_at_the_rate_that_is_documented():
    """Catches a draw that is the same for every sentence, and damage to what is no letter."""
    damaged = [misspell(line) for line in lines(500)]
    assert damaged == [misspell(line) for line in lines(500)]
    letters = sum(map(str.isalpha, TEXT))
    untouched = sum(a == b for a, b in zip(lines(500), damaged, strict=True)) / 500
    # An exchange of equal letters and the like leave a sentence as it was, too.
    assert 0 < untouched < 2 * (1 - 1 / LETTERS_PER_ERROR) ** letters + 0.02
    for line, wrong in zip(lines(500), damaged, strict=True):
        assert [c for c in line if not c.isalpha()] == [c for c in wrong if not c.isalpha()]
        assert abs(len(line) - len(wrong)) <= 14
    lengths = [len(wrong) - len(line) for line, wrong in zip(lines(500), damaged, strict=True)]
    assert min(lengths) < 0 < max(lengths)  # letters left out, and doubled
    assert abs(sum(lengths)) / 500 < 0.6


def test_accents_are_removed_and_nothing_else():
    assert (
        remove_accents("Müßig am Café, Ångström 東京 がぎ") == "Mußig am Cafe, Angstrom 東京 かき"
    )
    assert misspell("12 34 !") == "12 34 !"


@pytest.fixture
def config(tmp_path):
    """A plain text as both sides of a corpus."""
    for name in ("train", "validation"):
        with gzip.open(tmp_path / f"{name}.de.gz", "wt") as file:
            file.writelines(f"{line} ü\n" for line in lines(30))
    config = Config()
    config.data.corpus, config.data.drop_identical = str(tmp_path), False
    config.data.source_language = config.data.target_language = "de"
    config.data.source_noise = "remove_accents"
    return config.validate()


def test_one_text_is_both_sides_and_the_source_alone_is_damaged(config):
    """Catches noise in training alone, on both sides, and one that a prepared corpus ignores."""
    expected = [(f"{line} u", f"{line} ü") for line in lines(30)]
    assert load_evaluation_pairs(config.data, "validation") == expected
    assert list(TrainingText(config.data).pairs()) == expected
    clean = replace(config.data, source_noise="")
    assert corpus_recipe(clean, []) != corpus_recipe(config.data, [])
