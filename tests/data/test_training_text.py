"""training_text.py, corpora.py: lines in, pairs out; nothing is lost, added or moved in silence."""

import gzip
from collections import Counter

import pytest

from tests.data.corpus_files import write
from transformer.config import DataConfig
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.training_text import (
    LETTERS_PER_ERROR,
    TrainingText,
    load_evaluation_pairs,
    misspell,
    remove_accents,
)
from transformer.data.prepared.prepare import corpus_recipe


def load(config):
    """(the training pairs, the number of those that are left out by reason)."""
    kept, left_out = list(TrainingText(config).kept()), Counter()
    for block in kept:
        left_out.update({reason: len(indices) for reason, indices in block.left_out.items()})
    return [pair for block in kept for pair in block.pairs], left_out


def test_unequal_sides_are_refused_with_both_counts(tmp_path):
    """Catches zip(), which pairs what fits and drops the rest."""
    folder = write(tmp_path, train__en="a\nb\nc\n", train__de="a\nb\n")
    with pytest.raises(ValueError, match=r"train\.en has 3 and \S*train\.de has 2\.$"):
        load(DataConfig(corpus=folder))


def test_the_embedded_corpus_names_its_splits_and_languages():
    """Catches a KeyError, and a corpus that is read in the wrong direction."""
    with pytest.raises(ValueError, match="train, validation, test, challenge, not 'dev'"):
        load_evaluation_pairs(DataConfig(), "dev")
    with pytest.raises(ValueError, match="has no en-fr; it is en-de"):
        load_evaluation_pairs(DataConfig(target_language="fr"), "test")
    forward = load_evaluation_pairs(DataConfig(), "test")
    assert [any(" und " in pair[side] for pair in forward) for side in (0, 1)] == [False, True]
    backward = DataConfig(source_language="de", target_language="en")
    assert load_evaluation_pairs(backward, "test") == [(b, a) for a, b in forward]
    assert load_evaluation_pairs(DataConfig(), "test[98%:]") == forward[980:]


def test_weights_and_tags_are_parsed():
    """Catches a weight or tag that is read as a part of the name, or a folder with an @ in it."""
    corpora = parse_corpora("tfds:wmt/de-en@0.5#<2fr>,a@b@3, c#>>de<<")
    assert corpora == [("tfds:wmt/de-en", 0.5, "<2fr>"), ("a@b", 3.0, ""), ("c", 1.0, ">>de<<")]


WRONG = [" , ", "a@", "a@b", "a@0", "a@-1", "a@nan", "a@inf", "@2"]
WRONG += ["a#", "a#<2fr>@2", "a#x#y", "a#x y", "a#</b>", "a#▁x", "#x"]


@pytest.mark.parametrize("text", WRONG)
def test_impossible_weights_and_tags_are_refused(text):
    """Catches a weight that shows nothing, or everything for ever, and one inside of a tag."""
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        parse_corpora(text)


def test_training_counts_what_it_leaves_out_and_evaluation_keeps_every_sentence(tmp_path):
    """Catches a filter or replaced bytes that nobody notices, and a score over fewer sentences."""
    config = DataConfig(
        corpus=write(tmp_path, train__en="a\n\n \nsame\nb\n", train__de="A\nB\nC\nsame \n\t\n")
    )
    assert load(config) == ([("a", "A")], {"an empty side": 3, "equal sides": 1})
    config.drop_identical = False
    assert load(config) == ([("a", "A"), ("same", "same ")], {"an empty side": 3})
    everything = [("a", "A"), ("", "B"), (" ", "C"), ("same", "same "), ("b", "\t")]
    assert load_evaluation_pairs(config, "train") == everything
    write(tmp_path, test__en="a\n", test__de=b"\xe4\n")
    with pytest.warns(UserWarning, match=r"not UTF-8.*test\.de line 1"):
        load_evaluation_pairs(config, "test")


# ---- noise in sources, the same wherever they are read

TEXT = "Two young, White males are outside near many bushes, since 2001."
LINES = [f"{TEXT} {i}" for i in range(500)]


def test_letters_are_damaged_at_the_rate_that_is_documented():
    """Catches a draw that is the same for every sentence, and damage to what is no letter."""
    damaged = [misspell(line) for line in LINES]
    assert damaged == list(map(misspell, LINES))
    letters = sum(map(str.isalpha, TEXT))
    untouched = sum(map(str.__eq__, LINES, damaged)) / 500
    # An exchange of equal letters and the like leave a sentence as it was, too.
    assert 0 < untouched < 2 * (1 - 1 / LETTERS_PER_ERROR) ** letters + 0.02
    for line, wrong in zip(LINES, damaged, strict=True):
        assert [c for c in line if not c.isalpha()] == [c for c in wrong if not c.isalpha()]
    growth = [len(wrong) - len(line) for line, wrong in zip(LINES, damaged, strict=True)]
    assert -14 <= min(growth) < 0 < max(growth) <= 14  # letters left out, and doubled
    assert abs(sum(growth)) / 500 < 0.6
    assert misspell("12 34 !") == "12 34 !"


def test_one_text_is_both_sides_and_the_source_alone_is_damaged(tmp_path):
    """Catches noise in training alone, on both sides, and one that a prepared corpus ignores."""
    text = gzip.compress("".join(f"{line} ü\n" for line in LINES[:30]).encode())
    corpus = write(tmp_path, train__de__gz=text, validation__de__gz=text)
    both = {"source_language": "de", "target_language": "de", "drop_identical": False}
    config = DataConfig(corpus=corpus, source_noise="remove_accents", **both)
    expected = [(f"{line} u", f"{line} ü") for line in LINES[:30]]
    assert load_evaluation_pairs(config, "validation") == expected
    assert list(TrainingText(config).pairs()) == expected
    assert corpus_recipe(DataConfig(corpus=corpus, **both), []) != corpus_recipe(config, [])
    text = "Müßig am Café, Ångström 東京 がぎ"
    assert remove_accents(text) == "Mußig am Cafe, Angstrom 東京 かき"
