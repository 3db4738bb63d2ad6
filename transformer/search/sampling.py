"""Greedy search and sampling: hypotheses that grow side by side, each by one piece at a step."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.decoding import FREE, Hypotheses, HypothesisRules
from transformer.search.top_k import first_largest, log_sum_exp


class Growing(NamedTuple):
    """W hypotheses of every sentence."""

    ids: jax.Array  # [B, W, T+1], BOS first
    log_probs: jax.Array  # [B, W]
    lengths: jax.Array  # [B, W], 0 while unfinished
    rngs: jax.Array  # [B, 2], one PRNG key a sentence: its samples do not depend on its neighbours
    cache: Any


@dataclass(frozen=True)
class Sampling:
    """`width` independent samples of every sentence, in no order; temperature 0 is greedy search.

    top_k > 0 keeps the k most probable pieces, top_p < 1 the fewest whose probabilities reach p.
    The log-probabilities are the model's own, before temperature and truncation.
    """

    rules: HypothesisRules
    width: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self):
        for name, is_right, wanted in (
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)}.")

    def start(self, limits, cache, rngs=None):
        """Empty hypotheses; rngs [B, 2] are needed unless the temperature is 0."""
        num_sentences, max_length = limits.forced.shape
        shape = (num_sentences, self.width)
        return Growing(
            ids=jnp.zeros((*shape, max_length + 1), jnp.int32).at[:, :, 0].set(self.rules.bos),
            log_probs=jnp.zeros(shape),
            lengths=jnp.zeros(shape, jnp.int32),
            rngs=jnp.zeros((num_sentences, 2), jnp.uint32) if rngs is None else rngs,
            cache=cache,
        )

    def is_finished(self, limits, growing):
        """Sentences [B] of which every hypothesis has ended."""
        return (growing.lengths > 0).all(1) | (limits.max_lengths == 0)

    def extend(self, step_fn, limits, growing, position):
        """All unfinished hypotheses longer by one piece."""
        live = growing.lengths == 0
        tokens = jax.lax.dynamic_index_in_dim(growing.ids, position, axis=2, keepdims=False)
        own, places = jnp.arange(self.width)[:, None], jnp.arange(limits.forced.shape[1])
        ancestors = jnp.where(places <= position, own, -1)  # each has only itself
        ancestors = jnp.broadcast_to(ancestors, (len(tokens), *ancestors.shape))
        logits, cache = step_fn(tokens, growing.cache, position, ancestors)
        allowed = self.rules.without_early_end(logits, position)
        required = self.rules.required(position, limits)[:, None]
        chosen = self._choose(allowed, growing.rngs, position)
        pieces = jnp.where(required == FREE, chosen, required)
        gained = jnp.take_along_axis(logits, pieces[..., None], axis=-1)[..., 0]
        gained -= log_sum_exp(logits)
        ends = live & (pieces == self.rules.eos)
        return Growing(
            growing.ids.at[:, :, position + 1].set(jnp.where(live, pieces, 0)),
            growing.log_probs + jnp.where(live, gained, 0.0),
            jnp.where(ends, position + 1, growing.lengths),
            growing.rngs,
            cache,
        )

    def _choose(self, logits, rngs, position):
        if self.temperature == 0.0:
            return first_largest(logits)
        step_rngs = jax.vmap(jax.random.fold_in, (0, None))(rngs, position)
        kept = truncate(logits / self.temperature, self.top_k, self.top_p)
        return jax.vmap(jax.random.categorical)(step_rngs, kept)

    def results(self, growing):
        """`Hypotheses`, in no order."""
        penalty = self.rules.penalty(growing.lengths.astype(jnp.float32))
        return Hypotheses(growing.ids[:, :, 1:], growing.log_probs, growing.log_probs / penalty)


def truncate(logits, top_k=0, top_p=1.0):
    """Logits [..., V] with -inf beyond the k best pieces and the nucleus of mass p; ties stay."""
    if top_k:
        least = jax.lax.top_k(logits, min(top_k, logits.shape[-1]))[0][..., -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if top_p < 1.0:
        descending = jnp.flip(jnp.sort(logits, axis=-1), axis=-1)
        probabilities = jax.nn.softmax(descending)
        mass_before = jnp.cumsum(probabilities, axis=-1) - probabilities
        least = jnp.where(mass_before < top_p, descending, jnp.inf).min(-1, keepdims=True)
        logits = jnp.where(logits < least, -jnp.inf, logits)
    return logits
