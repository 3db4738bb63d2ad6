"""The flags of the evaluate command that say how to search for translations, or to sample."""

from dataclasses import dataclass
from typing import Any

from transformer.cli.flags import flag, given_flags
from transformer.config import MOST_HYPOTHESES

TRANSLATION = ("translation",)
SAMPLING_TASKS = ("translation", "language_model")
SEARCH_FLAGS = (
    "beam_size",
    "alpha",
    "early_stopping",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "sample",
    "mbr",
)


@dataclass(frozen=True)
class SearchFlags:
    """How to search; a flag that is not given leaves it to the configuration of the run."""

    beam_size: int | None = flag(
        None,
        "Beam width, instead of the configuration's; 1 is greedy.",
        metavar="N",
        tasks=TRANSLATION,
        at_least=1,
        at_most=MOST_HYPOTHESES,
    )
    alpha: float | None = flag(
        None, "Length penalty, instead of the configuration's.", metavar="X", tasks=TRANSLATION
    )
    early_stopping: bool | None = flag(
        None,
        "End a search at beam_size finished hypotheses: faster, but may find worse.",
        tasks=TRANSLATION,
    )
    sample: bool = flag(False, "Sample instead of searching.", tasks=TRANSLATION)
    temperature: float | None = flag(
        None, "Temperature of sampling.", metavar="X", tasks=SAMPLING_TASKS, needs=("sample",)
    )
    top_k: int | None = flag(
        None,
        "Sample from the K most probable tokens.",
        metavar="K",
        tasks=SAMPLING_TASKS,
        needs=("sample",),
    )
    top_p: float | None = flag(
        None,
        "Sample from the most probable tokens that together have probability P.",
        metavar="P",
        tasks=SAMPLING_TASKS,
        needs=("sample",),
    )
    seed: int | None = flag(
        None, "Seed of sampling.", metavar="N", tasks=SAMPLING_TASKS, needs=("sample",)
    )

    mbr: int | None = flag(
        None,
        "Take the one of N candidates (samples, or the N best of the search) that is most like all "
        "of them: minimum Bayes risk decoding by chrF.",
        metavar="N",
        tasks=TRANSLATION,
        at_least=1,
        at_most=MOST_HYPOTHESES,
    )

    @property
    def search_options(self) -> dict[str, Any]:
        """The options of the search that were given, as `Translator.translate` takes them."""
        given = given_flags(self)
        return {name: given[name] for name in SEARCH_FLAGS if name in given}
