"""corpus_facts.py: what the names and the text of a corpus tell."""

import pytest

from transformer.config import Config, DataConfig
from transformer.data.corpora.corpus_facts import (
    find_languages,
    measure_lengths,
    measure_text,
    missing_splits,
)
from transformer.data.corpora.languages import (
    CODES,
    M2M100,
    MBART50,
    NLLB,
    WMT21,
    has_spaces,
    scripts_of,
)
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import CharacterTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer

AUTO = {"source_language": "auto", "target_language": "auto"}


def folder_of(path, names, **languages):
    """The configuration of a folder that holds empty files of these names."""
    for name in names.split():
        (path / name).touch()
    return DataConfig(corpus=str(path), **AUTO | languages)


@pytest.mark.parametrize(
    ("names", "given", "languages"),
    [
        ("train.de train.en", {}, ("en", "de")),
        ("train.fr.gz train.de.xz val.it", {}, ("de", "fr")),
        ("train.de train.en", {"source_language": "de"}, ("de", "en")),
        ("train.pt_BR train.ja", {"target_language": "ja"}, ("pt_BR", "ja")),
        ("train.tsv", {"source_language": "a", "target_language": "b"}, ("a", "b")),
        ("train.00.en.gz train.00.de.gz train.01.jsonl", {}, ("en", "de")),
    ],
)
def test_languages_follow_from_the_names_of_the_files(names, given, languages, tmp_path):
    """Catches a direction that depends on the file system, and a given side that is overruled."""
    assert find_languages(folder_of(tmp_path, names, **given)) == languages


@pytest.mark.parametrize("names", ["train.tsv", "train.en", "train.en train.de train.fr", ""])
def test_names_that_do_not_tell_are_refused(names, tmp_path):
    """Catches a guess among three languages, and a traceback for a folder without text."""
    with pytest.raises(ValueError, match=r"set --config\.data\.source_language=… and"):
        find_languages(folder_of(tmp_path, names))


def test_datasets_name_their_languages():
    """Catches a dataset that is looked for as a folder."""
    for corpus in ("embedded", "tfds:wmt14_translate/de-en"):
        config = DataConfig(corpus=corpus, **AUTO)
        assert find_languages(config) == ("en", "de") and missing_splits(config) == []


def test_splits_without_files_are_found(tmp_path):
    """Catches a split with one side, val.* that is not taken for one, and a part of a file."""
    languages = {"source_language": "en", "target_language": "de"}
    config = folder_of(tmp_path, "train.en train.de test.en val.de", **languages)
    assert missing_splits(config) == ["validation", "test"]
    assert missing_splits(folder_of(tmp_path, "val.en.gz test.tsv.xz", **languages)) == []
    config = DataConfig(corpus=str(tmp_path / "test.tsv.xz"), validation_split="train[99%:]")
    assert missing_splits(config) == ["test"]


@pytest.mark.parametrize(
    "lines", [["1 2 3"], ["a. a, a!", "a? b"], ["the house", "the houses-to-be 12a"], ["日本語"]]
)
def test_the_largest_vocabulary_can_be_made(lines):
    """Catches a size that SentencePiece refuses, and characters where bytes are meant."""
    assert measure_text([("a bc", "ä bc"), ("a", "cd")])[0] == (2, 12, 6, 2)
    text, _ = measure_text([(line, line) for line in lines])
    assert SentencePieceTokenizer.train(lines * 2, text.largest_vocabulary).vocab_size > 260


def test_lengths_are_those_of_the_run_to_start_from(tmp_path):
    """Catches a vocabulary that is learnt anew, which an imported one cannot be."""
    characters = CharacterTokenizer.train(["abc"])
    save_tokenizers(tmp_path, characters, characters)
    config = Config()
    config.tokenizer.kind, config.training.init_from = "imported", str(tmp_path)
    lengths = measure_lengths([("abc", "a"), ("", "ab")], config)
    assert lengths.source.tolist() == [4, 1] and lengths.target.tolist() == [2, 3]


# ---- how a language is written, whatever code it is given by


WRITTEN = {  # codes: (scripts, whether there are spaces between words)
    "ja jpn jpn_Jpan ja_XX ja-JP JA": (("Jpan",), False),
    "zh zho cmn zh_CN zh-TW": (("Hans", "Hant"), False),
    "zho_Hans zh-Hans zh_hans_CN": (("Hans",), False),
    "en eng eng_Latn en_XX en-GB": (("Latn",), True),
    "ko kor kor_Hang ko_KR": (("Hang",), True),
    "bo bod bod_Tibt": (("Tibt",), False),
    "sr srp": (("Cyrl", "Latn"), True),
    "uz_Cyrl uzn-Cyrl xx_Cyrl": (("Cyrl",), True),
    "xx phonemes": ((), True),
}


def test_every_code_of_a_language_says_how_it_is_written():
    """Catches a check that knows a language by one of its codes alone, a code of a model without
    an entry, and an entry for a code that no language has."""
    for codes, expected in WRITTEN.items():
        for code in codes.split():
            assert (scripts_of(code), has_spaces(code)) == expected, code
    short = [pair.split("=")[0] for pair in CODES.split()]
    for code in [*f"{M2M100} {WMT21} {MBART50} {NLLB}".split(), *short]:
        assert scripts_of(code), code
