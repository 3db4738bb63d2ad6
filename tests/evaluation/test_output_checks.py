"""Text that is empty, copied or a loop counts as a fault, and nothing else does."""

import pytest

from transformer.evaluation.output_checks import count_faults, find_faults, split_words, word_unit


@pytest.mark.parametrize(
    ("source", "translation", "found"),
    [
        ("a dog", "ein Hund", []),
        ("a dog", " ", ["empty"]),
        ("  ", "", []),
        ("A  dog ", "a  DOG", ["copied"]),
        ("a dog", "a dog .", []),
        ("it is so", "es ist so so so so", ["repeating"]),
        ("it is so", "es ist so so so", []),
        ("so so so so", "so so so so", ["copied"]),
        ("x", "A b a B a b A b", ["repeating"]),
        ("x", "a b a b a b a", []),
        ("x", "a b c d e a b c d f a b c d", ["repeating"]),
        ("x", "a b c d e a b c d f a b c", []),
        ("no no no no", "nein nein nein nein", []),
    ],
)
def test_faults_by_hand(source, translation, found):
    """Catches a loop that ends one word early, and an empty source blamed on the translation."""
    assert find_faults(source, translation, "en", "de") == found


def test_characters_are_words_where_there_are_no_spaces():
    """Catches Chinese counted as one word per sentence, in which no loop could ever be seen."""
    assert split_words("你好 吗", "zh") == ["你", "好", "吗"] == split_words("你好 吗", "zh-CN")
    assert split_words("wie geht es", "de") == ["wie", "geht", "es"]
    assert find_faults("well", "好好好好", "en", "zh") == ["repeating"]


@pytest.mark.parametrize("code", ["ja", "jpn", "ja_XX", "jpn_Jpan", "zho_Hans", "zh-TW", "tha"])
def test_characters_are_words_whatever_code_the_language_has(code):
    """Catches sentences of an imported NLLB model that count as one word each, and never repeat."""
    assert word_unit(code) == "characters"
    assert find_faults("well", "好好好好", "eng_Latn", code) == ["repeating"]


def test_every_fault_is_counted_even_if_there_is_none():
    """Catches a report that lacks the line of a fault which did not occur."""
    assert count_faults([[], ["copied", "repeating"], ["copied"]]) == {
        "empty": 0, "copied": 2, "repeating": 1,
    }  # fmt: skip
