"""Whether a sentence has letters, and whether they are of a script that its language is written in.

Python's `unicodedata` knows no scripts; `regex`, which sacreBLEU brings along, has Unicode's.
"""

from collections.abc import Callable

import regex

from transformer.data.languages import STYLES, scripts_of

LEAST_SHARE = 0.5  # of the letters, that must be of the language's scripts


def has_letter(sentence: str) -> bool:
    """Whether a sentence has a character that Unicode calls a letter (L*)."""
    return any(map(str.isalpha, sentence))


def make_is_wrong(language: str) -> Callable[[str], bool]:
    """Returns the function that says whether most letters of a sentence are of other scripts.

    Letters that belong to no script, as ー and µ, do not count. Raises ValueError if nothing
    is known of how the language is written.
    """
    scripts = scripts_of(language)
    if not scripts:
        raise ValueError(
            f"data.drop_wrong_script does not know how the language '{language}' is written: set "
            f"it to False, or name the language, and its files, with its script, as "
            f"{language}_Latn."
        )
    names = (name for script in scripts for name in STYLES.get(script, [script]))
    of_language = "".join(rf"\p{{Script={name}}}" for name in names)
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
