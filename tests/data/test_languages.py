"""languages.py: how a language is written, whatever code it is given by."""

import pytest

from transformer.data.corpora.languages import (
    CODES,
    M2M100,
    MBART50,
    NLLB,
    WMT21,
    has_spaces,
    scripts_of,
)


@pytest.mark.parametrize(
    ("codes", "scripts", "spaces"),
    [
        ("ja jpn jpn_Jpan ja_XX ja-JP JA", ("Jpan",), False),
        ("zh zho cmn zh_CN zh-TW", ("Hans", "Hant"), False),
        ("zho_Hans zh-Hans zh_hans_CN", ("Hans",), False),
        ("en eng eng_Latn en_XX en-GB", ("Latn",), True),
        ("ko kor kor_Hang ko_KR", ("Hang",), True),
        ("bo bod bod_Tibt", ("Tibt",), False),
        ("sr srp", ("Cyrl", "Latn"), True),
        ("uz_Cyrl uzn-Cyrl xx_Cyrl", ("Cyrl",), True),
        ("xx phonemes", (), True),
    ],
)
def test_every_code_of_a_language_says_how_it_is_written(codes, scripts, spaces):
    """Catches a check that knows a language by one of its codes alone."""
    for code in codes.split():
        assert (scripts_of(code), has_spaces(code)) == (scripts, spaces), code


def test_the_script_of_every_language_of_a_model_is_known():
    """Catches a code without an entry, and an entry for a code that no language has."""
    short = [pair.split("=")[0] for pair in CODES.split()]
    for code in [*f"{M2M100} {WMT21} {MBART50} {NLLB}".split(), *short]:
        assert scripts_of(code), code
