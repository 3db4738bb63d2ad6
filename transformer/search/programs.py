"""The search of a translation: its options, and its programs for the model.

A batch of sentences is encoded (`begin`), and grows until some of them are done (`advance`), which
leave it to the others, or to those of another batch (`collect`); its cache grows with it, so that
attention and memory are of the length that is needed (`lengthen`). `conveyor` runs these programs.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.data.tokenizer import BOS, EOS
from transformer.search.beam_search import BeamSearch
from transformer.search.decoding import Limits, Rules, advance
from transformer.search.sampling import Sampling

FIRST_CACHE = 16  # places


@dataclass(frozen=True)
class Search:
    """The options of one search; each set is compiled once a shape."""

    beam_size: int
    alpha: float
    length_penalty: str
    max_extra_length: int
    min_length: int = 0
    nbest: int = 1
    early_stopping: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    @classmethod
    def from_config(cls, decoding, **options):
        """A configuration's search with `options` in place of its own; ValueError if wrong."""
        names = ("beam_size", "alpha", "length_penalty", "max_extra_length")
        chosen = {name: getattr(decoding, name) for name in names} | options
        try:
            search = cls(**chosen)
        except TypeError:
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(
                f"The options of translate are {known}, not {', '.join(options)}."
            ) from None
        search.method()  # which checks its own
        return search._checked()

    def _checked(self):
        has_beam = self.beam_size > 1 and not self.sample
        for name, is_right, wanted in (
            ("beam_size", self.beam_size >= 1, "at least 1"),
            ("nbest", self.nbest >= 1, "at least 1"),
            ("nbest", self.sample or self.nbest <= self.beam_size, "at most beam_size"),
            ("early_stopping", has_beam or not self.early_stopping, "False without a beam"),
            ("alpha", self.alpha >= 0, "at least 0"),
            ("length_penalty", self.length_penalty in ("gnmt", "power"), "gnmt or power"),
            ("max_extra_length", self.max_extra_length >= 0, "at least 0"),
            ("min_length", self.min_length >= 0, "at least 0"),
            ("temperature", self.temperature > 0, "above 0"),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)}.")
        return self

    def method(self):
        """How to search: a `BeamSearch` or a `Sampling`."""
        rules = Rules(BOS, EOS, self.length_penalty, self.alpha, self.min_length)
        if self.sample:
            return Sampling(rules, self.nbest, self.temperature, self.top_k, self.top_p)
        if self.beam_size == 1:
            return Sampling(rules, temperature=0.0)
        return BeamSearch(rules, self.beam_size, self.nbest, self.early_stopping)


class Riders(NamedTuple):
    """Sentences on their way; every leaf leads with [B]."""

    limits: Limits
    encoded: Any  # the source, as `Transformer.encode_for_search` gives it
    state: Any  # of the search method


def cache_lengths(max_length):
    """The lengths that a cache goes through: doubled when they are used up, to `max_length`."""
    lengths = [FIRST_CACHE]
    while lengths[-1] * 1.25 < max_length:
        lengths.append(2 * lengths[-1])
    return [*lengths[:-1], max_length]


def begin(model, method, params, inputs, source_lengths, limits, rngs):
    """Encodes inputs [B, S] of `source_lengths` [B] and starts the search with a short cache."""
    variables = {"params": params}
    length = cache_lengths(limits.forced.shape[1])[0]
    encoded = model.apply(variables, inputs, source_lengths, method="encode_for_search")
    cache = model.apply(variables, len(inputs), method.width, length, method="init_cache")
    start = {"rngs": rngs} if isinstance(method, Sampling) else {}
    return Riders(limits, encoded, method.start(limits, cache, **start))


def advance_riders(model, method, params, fixed, state, start, stop, few):
    """(state, place [1], which are done [B], their results): grown from place `start` [1].

    They grow to `stop`, or to where only `few` [1] are not done.
    """
    limits, encoded = fixed

    def step_fn(tokens, cache, position, ancestors):
        inputs = tokens, cache, position, ancestors, encoded
        return model.apply({"params": params}, *inputs, method="decode_step")

    state, place = advance(method, step_fn, limits, state, start[0], stop, few[0])
    return state, place[None], method.is_done(limits, state), method.results(state)


def lengthen(model, method, state):
    """The state with a cache of the next length."""
    inputs = state.cache, method.width, cache_lengths(state.ids.shape[2] - 1)
    return state._replace(cache=model.apply({}, *inputs, method="lengthen_cache"))


def collect(riders, others, places):
    """The sentences at `places` of two batches, one after the other; beyond both: none."""
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), riders, others)
    kept = jax.tree.map(lambda leaf: jnp.take(leaf, places, axis=0, mode="clip"), both)
    is_there = places < len(both.limits.max_lengths)
    max_lengths = jnp.where(is_there, kept.limits.max_lengths, 0)
    return kept._replace(limits=kept.limits._replace(max_lengths=max_lengths))
