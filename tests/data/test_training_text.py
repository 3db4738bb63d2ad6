"""training_text.py, corpora.py: lines in, pairs out; nothing is lost, added or moved in silence."""

import gzip
import warnings
from collections import Counter

import pytest

from transformer.config import DataConfig
from transformer.data.corpora import training_text
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.training_text import (
    LETTERS_PER_ERROR,
    TrainingText,
    misspell,
    remove_accents,
)
from transformer.data.prepared.prepare import corpus_recipe


def write(folder, **files):
    """Writes train__en="..." as train.en; str or bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return str(folder)


def load(config):
    """(the training pairs, the number of those that are left out by reason)."""
    kept = list(TrainingText(config).kept())
    left_out = Counter()
    for block in kept:
        left_out.update({reason: len(indices) for reason, indices in block.left_out.items()})
    return [pair for block in kept for pair in block.pairs], left_out


def test_unequal_sides_are_refused_with_both_counts(tmp_path):
    """Catches zip(), which pairs what fits and drops the rest."""
    folder = write(tmp_path, train__en="a\nb\nc\n", train__de="a\nb\n")
    with pytest.raises(ValueError, match=r"train\.en has 3 and \S*train\.de has 2\.$"):
        load(DataConfig(corpus=folder))


def test_a_missing_folder_or_split_says_what_is_needed_and_what_the_folder_holds(tmp_path):
    """Catches "No such file or directory" without a way out."""
    with pytest.raises(ValueError, match=r"must hold train\.en and train\.de .*no such folder"):
        load(DataConfig(corpus=str(tmp_path / "none")))
    folder = write(tmp_path, train__en="a\n", dev__de="b\n")
    with pytest.raises(ValueError, match=r"it holds dev\.de, train\.en\.$"):
        load(DataConfig(corpus=folder))
    empty = write(tmp_path / "empty")
    with pytest.raises(ValueError, match=r"it holds nothing\.$"):
        training_text.load_evaluation_pairs(DataConfig(corpus=empty), "test")


def test_the_embedded_corpus_names_its_splits_and_languages():
    """Catches a KeyError, and a corpus that is read in the wrong direction."""
    with pytest.raises(ValueError, match="train, validation, test, challenge, not 'dev'"):
        training_text.load_evaluation_pairs(DataConfig(), "dev")
    with pytest.raises(ValueError, match="has no en-fr; it is en-de"):
        training_text.load_evaluation_pairs(DataConfig(target_language="fr"), "test")
    forward = training_text.load_evaluation_pairs(DataConfig(), "test")
    are_german = [any(" und " in pair[side] for pair in forward) for side in (0, 1)]
    assert are_german == [False, True]
    backward = DataConfig(source_language="de", target_language="en")
    assert training_text.load_evaluation_pairs(backward, "test") == [(b, a) for a, b in forward]


def test_tsv(tmp_path):
    """Catches a column too many that is dropped, and a tab split elsewhere."""
    folder = write(tmp_path, train__tsv="a b\tc\u0085d\r\ne\tf\n")
    pairs = load(DataConfig(corpus=folder))[0]
    assert pairs == [("a b", "c\u0085d"), ("e", "f")]
    write(tmp_path, train__tsv="a\tb\nc\td\te\n")
    with pytest.raises(ValueError, match=r"train\.tsv line 2 must be .*has 3 columns\.$"):
        load(DataConfig(corpus=folder))


def test_weights_and_tags_are_parsed():
    """Catches a weight or tag that is read as a part of the name, or a folder with an @ in it."""
    assert parse_corpora("a@2, b") == [("a", 2.0, ""), ("b", 1.0, "")]
    assert parse_corpora("tfds:wmt/de-en@0.5,a@b@3") == [
        ("tfds:wmt/de-en", 0.5, ""),
        ("a@b", 3.0, ""),
    ]
    corpora = parse_corpora("gs://b/x@0.5#<2fr>,b#>>de<<, c")
    assert corpora == [("gs://b/x", 0.5, "<2fr>"), ("b", 1.0, ">>de<<"), ("c", 1.0, "")]


WRONG_WEIGHTS = ["", " , ", "a@", "a@b", "a@0", "a@-1", "a@nan", "a@inf", "@2"]
WRONG_TAGS = ["a#", "a#<2fr>@2", "a#x#y", "a#x y", "a#</b>", "a#▁x", "#x"]


@pytest.mark.parametrize("text", WRONG_WEIGHTS + WRONG_TAGS)
def test_impossible_weights_and_tags_are_refused(text):
    """Catches a weight that shows nothing, or everything for ever, and one inside of a tag."""
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        parse_corpora(text)


def test_several_corpora_keep_their_order(tmp_path):
    """Catches a second corpus that is read first, or whose test set counts."""
    a = write(tmp_path / "a", train__en="1\n\n3\n", train__de="eins\nzwei\ndrei\n")
    b = write(tmp_path / "b", train__en="4\n", train__de="vier\n", test__en="x\n", test__de="y\n")
    pairs, _ = load(DataConfig(corpus=f"{a}@2,{b}@0.5"))
    assert pairs == [("1", "eins"), ("3", "drei"), ("4", "vier")]
    assert training_text.load_evaluation_pairs(DataConfig(corpus=f"{b},{a}"), "test") == [
        ("x", "y")
    ]


def test_what_is_left_out_is_counted_by_reason(tmp_path):
    """Catches a filter that nobody notices, and one that cannot be switched off."""
    folder = write(tmp_path, train__en="a\n\n \nsame\nb\n", train__de="A\nB\nC\nsame \n\t\n")
    pairs, problems = load(DataConfig(corpus=folder))
    assert pairs == [("a", "A")]
    assert problems == {"an empty side": 3, "equal sides": 1}
    config = DataConfig(corpus=folder, drop_identical=False)
    pairs, problems = load(config)
    assert pairs == [("a", "A"), ("same", "same ")]
    assert problems == {"an empty side": 3}


def test_evaluation_keeps_every_sentence(tmp_path):
    """Catches a score over fewer sentences than the test set has."""
    folder = write(tmp_path, test__en="a\n\nsame\n", test__de="A\nB\nsame\n")
    pairs = training_text.load_evaluation_pairs(DataConfig(corpus=folder), "test")
    assert pairs == [("a", "A"), ("", "B"), ("same", "same")]


def test_bad_bytes_in_the_test_set_are_warned_of(tmp_path):
    """Catches references with replaced characters and a score that suffers without a reason."""
    folder = write(tmp_path, test__en="a\n", test__de=b"\xe4\n")
    with pytest.warns(UserWarning, match=r"not UTF-8.*test\.de line 1"):
        training_text.load_evaluation_pairs(DataConfig(corpus=folder), "test")
    write(tmp_path, test__de="ä\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training_text.load_evaluation_pairs(DataConfig(corpus=folder), "test")


def test_nothing_to_train_or_evaluate_on_is_an_error(tmp_path):
    """Catches a run over no data that ends well."""
    folder = write(tmp_path, train__en="\nx\n", train__de="\nx\n", test__en="", test__de="")
    with pytest.raises(ValueError, match=r"holds no pair to train on.*empty side.*equal sides"):
        load(DataConfig(corpus=folder))
    with pytest.raises(ValueError, match=r"'test' of .* is empty"):
        training_text.load_evaluation_pairs(DataConfig(corpus=folder), "test")


# ---- noise in sources, the same wherever they are read

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


def test_one_text_is_both_sides_and_the_source_alone_is_damaged(tmp_path):
    """Catches noise in training alone, on both sides, and one that a prepared corpus ignores."""
    text = gzip.compress("".join(f"{line} ü\n" for line in lines(30)).encode())
    corpus = write(tmp_path, train__de__gz=text, validation__de__gz=text)
    both = {"source_language": "de", "target_language": "de", "drop_identical": False}
    config = DataConfig(corpus=corpus, source_noise="remove_accents", **both)
    expected = [(f"{line} u", f"{line} ü") for line in lines(30)]
    assert training_text.load_evaluation_pairs(config, "validation") == expected
    assert list(TrainingText(config).pairs()) == expected
    clean = DataConfig(corpus=corpus, **both)
    assert corpus_recipe(clean, []) != corpus_recipe(config, [])
