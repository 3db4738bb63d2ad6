"""The options of a search."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

from transformer.config.groups import MOST_EXTRA, MOST_HYPOTHESES, DecodingConfig
from transformer.search.beam_search import BeamSearch
from transformer.search.decoding import HypothesisRules
from transformer.search.sampling import Sampling
from transformer.special_tokens import OWN_IDS, SpecialIds

LARGEST = dict.fromkeys(("beam_size", "nbest", "mbr"), MOST_HYPOTHESES)
LARGEST |= dict.fromkeys(("max_extra_length", "min_length"), MOST_EXTRA)


class SearchKeywords(TypedDict, total=False):
    """Those of `SearchOptions` that a caller may give by name, for type checkers and editors."""

    beam_size: int
    alpha: float
    length_penalty: str
    max_extra_length: int
    min_length: int
    mbr: int
    early_stopping: bool
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int


class TranslateKeywords(SearchKeywords, total=False):
    """All that `Translator.translate` takes by name, but `nbest`."""

    prefixes: Iterable[str] | None
    attention: bool


@dataclass(frozen=True)
class SearchOptions:
    """The options of one search; every different set compiles programs of its own.

    beam_size 1 is greedy search; with `sample` the beam is not used. Lengths count tokens, EOS
    included. The others are described at `BeamSearch`, `Sampling` and `decoding.length_penalty`.
    """

    beam_size: int
    alpha: float
    length_penalty: str
    max_extra_length: int  # tokens that a translation may have more than its source
    min_length: int = 0
    nbest: int = 1
    mbr: int = 0  # candidates of a minimum Bayes risk decoding; 0: the best hypothesis is taken
    early_stopping: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    @classmethod
    def from_config(
        cls, decoding: DecodingConfig, nbest: int = 1, **options: Unpack[SearchKeywords]
    ) -> "SearchOptions":
        """Returns the options of a configuration, overridden by `options`.

        Raises ValueError for an unknown option or a value out of its range.
        """
        names = ("beam_size", "alpha", "length_penalty", "max_extra_length")
        chosen: dict[str, Any] = {name: getattr(decoding, name) for name in names}
        chosen |= options | {"nbest": nbest}
        for name in options.keys() - cls.__dataclass_fields__:
            known = [*cls.__dataclass_fields__, "prefixes", "attention"]
            nearest = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean '{nearest[0]}'?" if nearest else f"it has {', '.join(known)}."
            raise ValueError(f"translate has no option '{name}'; {hint}")
        search = cls(**chosen)
        search._check()
        return replace(search, nbest=search.mbr) if search.mbr else search

    def _check(self) -> None:
        replace(self, sample=True).method()  # which checks the options of sampling
        beam = f"at most beam_size, {self.beam_size}"
        has_beam = self.beam_size > 1 and not self.sample
        for name, is_right, expected in (
            ("length_penalty", self.length_penalty in ("gnmt", "power"), "gnmt or power"),
            ("beam_size", self.beam_size >= 1, "at least 1"),
            ("mbr", self.mbr >= 0, "at least 0"),
            ("mbr", self.sample or self.mbr <= self.beam_size, f"{beam}, or sample=True"),
            ("nbest", self.nbest == 1 or not self.mbr, "1 with mbr, which chooses one translation"),
            ("nbest", self.nbest >= 1, "at least 1"),
            ("nbest", self.sample or self.nbest <= self.beam_size, beam),
            ("early_stopping", has_beam or not self.early_stopping, "False without a beam"),
            ("alpha", self.alpha >= 0, "at least 0"),
            ("max_extra_length", self.max_extra_length >= 0, "at least 0"),
            ("min_length", self.min_length >= 0, "at least 0"),
            *(
                (name, getattr(self, name) <= most, f"at most {most:,}")
                for name, most in LARGEST.items()
            ),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {expected}, not {getattr(self, name)}.")

    def first_cache_length(self, bucket: int) -> int:
        """Returns the number of columns that suffice for nearly all sentences of a bucket.

        An exact beam search with a length penalty goes on far beyond the end of its best
        hypothesis, as a longer one could win.

        >>> SearchOptions(1, 0.0, "gnmt", 50).first_cache_length(16)
        20
        >>> SearchOptions(4, 0.6, "gnmt", 50).first_cache_length(16)
        32
        """
        goes_on = self.beam_size > 1 and self.alpha and not (self.sample or self.early_stopping)
        first, last = 2 * bucket if goes_on else bucket * 5 // 4, self.last_cache_length(bucket)
        return first if first * 1.25 < last else last

    def last_cache_length(self, bucket: int) -> int:
        """Returns the number of columns that suffice for all sentences of a bucket."""
        return bucket + self.max_extra_length

    def method(self, special: SpecialIds = OWN_IDS, num_unscored: int = 0) -> BeamSearch | Sampling:
        """Returns the search method that these options describe.

        special: the ids with which a hypothesis begins and ends. num_unscored: see
        `HypothesisRules`; 1 if every translation begins with its language.
        """
        penalty = self.length_penalty, self.alpha
        rules = HypothesisRules(special.bos, special.eos, *penalty, self.min_length, num_unscored)
        if self.sample:
            return Sampling(rules, self.nbest, self.temperature, self.top_k, self.top_p)
        if self.beam_size == 1:
            return Sampling(rules, temperature=0.0)
        return BeamSearch(rules, self.beam_size, self.nbest, self.early_stopping)
