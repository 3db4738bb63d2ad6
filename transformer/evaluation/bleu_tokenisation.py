"""Which of sacreBLEU's tokenisations suits a language, and whether it can run here."""

from sacrebleu.metrics import BLEU

from transformer.data.corpora.languages import has_spaces, scripts_of

EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # tokenisation: what pip installs for it
BEST = {"Jpan": "ja-mecab", "Hans": "zh", "Hant": "zh", "Hang": "ko-mecab", "Kore": "ko-mecab"}


def best_tokenisation(language: str) -> str:
    """Returns the tokenisation of sacreBLEU that suits a language, whatever code it is given by.

    >>> best_tokenisation("zh_CN"), best_tokenisation("tha_Thai"), best_tokenisation("de")
    ('zh', 'char', '13a')
    """
    usual = "13a" if has_spaces(language) else "char"
    return next((BEST[script] for script in scripts_of(language) if script in BEST), usual)


def choose_tokenisation(language: str) -> tuple[str, str]:
    """Returns (the tokenisation for a language that can run here, why it is this one)."""
    best = best_tokenisation(language)
    if best == "13a":
        return best, "the usual one"
    if best == "char":
        return best, f"sacreBLEU has no tokeniser of its own for {language}"
    try:
        check_tokenisation(best)
    except ValueError:
        return "char", f"{best} needs pip install 'sacrebleu[{EXTRAS[best]}]'"
    return best, f"for the language {language}"


def tokenisation_note(tokenize: str, language: str) -> str:
    """Returns a warning if BLEU is to count words of a language without spaces, else ""."""
    if has_spaces(language) or tokenize not in ("13a", "intl"):
        return ""
    others = " or ".join(dict.fromkeys((best_tokenisation(language), "char")))
    return (
        f"{tokenize} does not split {language} into words, so BLEU says little; set "
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
