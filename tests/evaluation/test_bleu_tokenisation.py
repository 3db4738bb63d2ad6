"""BLEU by a tokenisation: scores of languages whose words 13a does not find."""

from types import SimpleNamespace

import pytest

import transformer
from transformer.config import Config
from transformer.evaluation import metrics
from transformer.evaluation.metrics import (
    BEST,
    check_tokenisation,
    choose_tokenisation,
    tokenisation_note,
)
from transformer.evaluation.translation import evaluate_translator

CURE = r"^[^\n]*pip install 'sacrebleu\[ja\]' [^\n]*\.$"


class Tokenisers:
    """Stands for sacreBLEU's BLEU where some packages are not installed."""

    def __init__(self, *missing):
        self.missing = missing

    def __call__(self, tokenize, force):
        if tokenize in self.missing:
            raise RuntimeError("extra dependencies")


@pytest.mark.parametrize(
    ("code", "missing", "tokenize", "reason"),
    [
        ("de", (), "13a", "usual"),
        ("ja", (), "ja-mecab", "for the language ja"),
        ("jpn", ("ja-mecab",), "char", "pip install 'sacrebleu[ja]'"),
        ("kor_Hang", (), "ko-mecab", "kor_Hang"),
        ("zh_TW", ("ja-mecab",), "zh", "zh_TW"),
        ("tha_Thai", (), "char", "no tokeniser of its own for tha_Thai"),
    ],
)
def test_a_language_gets_a_tokenisation_that_runs(code, missing, tokenize, reason, monkeypatch):
    """Catches a tokenisation whose packages are not there, and a language known by one code."""
    monkeypatch.setattr(metrics, "BLEU", Tokenisers(*missing))
    chosen, why = choose_tokenisation(code)
    assert chosen == tokenize and reason in why


def test_training_and_evaluation_refuse_it_before_any_work(monkeypatch, tmp_path):
    """Catches a check that comes after the corpus was read, or a sentence translated."""
    monkeypatch.setattr(metrics, "BLEU", Tokenisers("ja-mecab"))
    config = Config().with_values({"data.bleu_tokenize": "ja-mecab", "data.corpus": "no/folder"})
    with pytest.raises(ValueError, match=CURE):
        transformer.train(config, tmp_path / "run", verbose=False)
    with pytest.raises(ValueError, match=CURE):
        evaluate_translator(SimpleNamespace(config=config), [("a", "b")], "corpus")


def test_sacrebleu_knows_what_may_be_chosen():
    """Catches a name that sacreBLEU does not have, where its packages are installed or not."""
    for name in {"13a", "char"} | set(BEST.values()):
        try:
            check_tokenisation(name)
        except ValueError as error:
            assert "mecab" in name and "pip install" in str(error)


def test_words_are_not_counted_in_silence_where_there_are_no_spaces():
    """Catches BLEU by 13a of Japanese without a word, and a warning where it is right."""
    assert "ja-mecab or char" in tokenisation_note("13a", "ja")
    for tokenize, code in (("char", "ja"), ("13a", "de"), ("13a", "ko"), ("none", "ja")):
        assert tokenisation_note(tokenize, code) == ""
