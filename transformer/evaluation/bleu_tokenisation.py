"""Which of sacreBLEU's tokenisations suits a language, and whether it can run here."""

import re
from typing import NamedTuple

from sacrebleu.metrics import BLEU

EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # tokenisation: what pip installs for it


class Language(NamedTuple):
    """A language that 13a does not suit. best: its tokenisation in sacreBLEU."""

    name: str
    best: str = "char"
    has_spaces: bool = False


LANGUAGES = {
    "ja": Language("Japanese", "ja-mecab"),
    "zh": Language("Chinese", "zh"),
    "ko": Language("Korean", "ko-mecab", has_spaces=True),
    "th": Language("Thai"),
    "lo": Language("Lao"),
    "km": Language("Khmer"),
    "my": Language("Burmese"),
    "bo": Language("Tibetan"),
}
CODES = {"jpn": "ja", "zho": "zh", "cmn": "zh", "yue": "zh", "kor": "ko"}
CODES |= {"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bod": "bo"}


def find_language(code: str) -> Language | None:
    """Returns what is known of a language by its code, None if 13a suits it.

    >>> find_language("zh_CN").name, find_language("de")
    ('Chinese', None)
    """
    first = re.split("[-_]", code.lower())[0]
    return LANGUAGES.get(CODES.get(first, first))


def choose_tokenisation(code: str) -> tuple[str, str]:
    """Returns (the tokenisation for a language that can run here, why it is this one)."""
    language = find_language(code)
    if not language:
        return "13a", "the usual one"
    try:
        check_tokenisation(language.best)
    except ValueError:
        extra = EXTRAS[language.best]
        return "char", f"{language.best} needs pip install 'sacrebleu[{extra}]'"
    if language.best != "char":
        return language.best, f"for {language.name}"
    return "char", f"sacreBLEU has no tokeniser of its own for {language.name}"


def tokenisation_note(tokenize: str, code: str) -> str:
    """Returns a warning if BLEU is to count words of a language without spaces, else ""."""
    language = find_language(code)
    if not language or language.has_spaces or tokenize not in ("13a", "intl"):
        return ""
    others = " or ".join(dict.fromkeys((language.best, "char")))
    return (
        f"{tokenize} does not split {language.name} into words, so BLEU says little; set "
        f"--config.data.bleu_tokenize={others}"
    )


def check_tokenisation(tokenize: str) -> None:
    """Raises ValueError if BLEU's tokenisation needs packages that are not installed."""
    try:
        BLEU(tokenize=tokenize, force=True)
    except (AssertionError, ImportError, RuntimeError):
        raise ValueError(
            f"data.bleu_tokenize={tokenize} needs more packages: pip install "
            f"'sacrebleu[{EXTRAS.get(tokenize, tokenize)}]' (data.bleu_tokenize=char needs none)."
        ) from None
