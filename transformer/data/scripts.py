"""Whether a sentence has letters, and whether they are of a script that its language is written in.

Python's `unicodedata` knows no scripts; `regex`, which sacreBLEU brings along, has Unicode's.
"""

from collections.abc import Callable

import regex

LEAST_SHARE = 0.5  # of the letters, that must be of the language's scripts
LANGUAGES = {  # by script, or by the scripts of a language that has several
    "Latin": "af ast az bs ca ceb cs cy da de en eo es et eu fi fil fo fr ga gd gl ha hr ht hu id "
    "ig is it jv ku la lb ln lt lv mg mi ms mt nb nl nn no ny oc om pl pt ro rw sk sl sm sn so sq "
    "st su sv sw tk tl tn tr ts uz vi wo xh yo zu",
    "Cyrillic": "ba be bg ce cv kk ky mk mn os ru sah tg tt uk",
    "Cyrillic Latin": "sr",
    "Arabic": "ar arz ckb fa ps sd ug ur",
    "Hebrew": "he iw yi",
    "Greek": "el",
    "Armenian": "hy",
    "Georgian": "ka",
    "Devanagari": "bho hi mai mr ne sa",
    "Bengali": "as bn",
    "Gurmukhi": "pa",
    "Gujarati": "gu",
    "Oriya": "or",
    "Tamil": "ta",
    "Telugu": "te",
    "Kannada": "kn",
    "Malayalam": "ml",
    "Sinhala": "si",
    "Thai": "th",
    "Lao": "lo",
    "Khmer": "km",
    "Myanmar": "my",
    "Tibetan": "bo dz",
    "Ethiopic": "am ti",
    "Han Bopomofo": "yue zh",
    "Han Hiragana Katakana": "ja",
    "Hangul Han": "ko",
}
SCRIPTS = {language: key.split() for key, names in LANGUAGES.items() for language in names.split()}
SEVERAL = {  # names of ISO 15924 that stand for several scripts, or for a style of one
    "hans": ["Han", "Bopomofo"],
    "hant": ["Han", "Bopomofo"],
    "jpan": SCRIPTS["ja"],
    "kore": SCRIPTS["ko"],
}


def has_letter(sentence: str) -> bool:
    """Whether a sentence has a character that Unicode calls a letter (L*)."""
    return any(map(str.isalpha, sentence))


def scripts_of(language: str) -> list[str]:
    """Returns the scripts that a language is written in; raises ValueError if they are unknown.

    A name of a script counts before the language's: pt_BR is Portuguese, but uz_Cyrl Cyrillic.

    >>> scripts_of("ja"), scripts_of("uz_Cyrl")
    (['Han', 'Hiragana', 'Katakana'], ['cyrl'])
    """
    name, *subtags = language.lower().replace("-", "_").split("_")
    for subtag in subtags:
        if len(subtag) == 4 and (subtag in SEVERAL or _is_script(subtag)):
            return SEVERAL.get(subtag, [subtag])
    if name not in SCRIPTS:
        raise ValueError(
            f"data.drop_wrong_script does not know how the language '{language}' is written: set "
            f"it to False, or name the language, and its files, with its script, as {name}_Latn."
        )
    return SCRIPTS[name]


def _is_script(name: str) -> bool:
    try:
        regex.compile(rf"\p{{Script={name}}}")
    except regex.error:
        return False
    return True


def make_is_wrong(language: str) -> Callable[[str], bool]:
    """Returns the function that says whether most letters of a sentence are of other scripts.

    Letters that belong to no script, as ー and µ, do not count. Raises ValueError as `scripts_of`.
    """
    of_language = "".join(rf"\p{{Script={script}}}" for script in scripts_of(language))
    of_none = r"\p{Script=Common}\p{Script=Inherited}"
    right = regex.compile(rf"[\p{{L}}&&[{of_language}]]", regex.V1)
    wrong = regex.compile(rf"[\p{{L}}--[{of_language}{of_none}]]", regex.V1)

    def is_wrong(sentence: str) -> bool:
        num_wrong = len(wrong.findall(sentence))
        if not num_wrong:
            return False
        num_right = len(right.findall(sentence))
        return num_right < LEAST_SHARE * (num_right + num_wrong)

    return is_wrong
