"""Greedy search and sampling: independent hypotheses that grow by one token per step."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from transformer.search.decoding import FREE, Array, Hypotheses, HypothesisRules, Limits
from transformer.search.top_k import first_largest, log_sum_exp


class SampleState(NamedTuple):
    """W hypotheses of every sentence."""

    tokens: jax.Array  # [B, W], the last token of each, BOS at first
    ids: jax.Array  # [B, W, L], without BOS, 0 in columns without a token
    log_probs: jax.Array  # [B, W]
    lengths: jax.Array  # [B, W], 0 while unfinished
    rngs: jax.Array  # [B, 2], a PRNG key per sentence: samples do not depend on other rows


@dataclass(frozen=True)
class Sampling:
    """`width` independent samples of every sentence, in no order.

    temperature: divides the logits; 0 is greedy search. top_k > 0 keeps the k most probable tokens,
    top_p < 1 the fewest whose probabilities reach p. The log-probabilities of the results are the
    model's own, before temperature and truncation. Raises ValueError for options out of range.
    """

    rules: HypothesisRules
    width: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        for name, is_right, expected in (
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {expected}, not {getattr(self, name)}.")

    def start(self, rngs: Array, length: int) -> SampleState:
        """Returns empty hypotheses."""
        shape = (rngs.shape[0], self.width)
        return SampleState(
            tokens=jnp.full(shape, self.rules.bos),
            ids=jnp.zeros((*shape, length), jnp.int32),
            log_probs=jnp.zeros(shape),
            lengths=jnp.zeros(shape, jnp.int32),
            rngs=jnp.asarray(rngs),
        )

    def is_finished(self, limits: Limits, state: SampleState) -> jax.Array:
        """Returns the sentences [B] of which every hypothesis has ended."""
        return (state.lengths > 0).all(1) | (limits.max_lengths == 0)

    def ancestors(self, state: SampleState, positions: jax.Array, column: jax.Array) -> jax.Array:
        """Returns the table [B, W, L] in which each hypothesis wrote all of its columns itself.

        For a sentence at position 2, in column 1 of 4, its columns are 3, 0 and 1: those of two
        steps ago, one step ago and now.
        """
        length = state.ids.shape[2]
        steps_ago = (column - jnp.arange(length)) % length
        is_written = steps_ago <= positions[:, None, None]
        return jnp.where(is_written, jnp.arange(self.width)[:, None], -1)

    def extend(
        self, limits: Limits, state: SampleState, logits: jax.Array, positions: Any, column: Any
    ) -> SampleState:
        """Extends every unfinished hypothesis by one token."""
        is_live = state.lengths == 0
        allowed = self.rules.mask_early_end(logits, positions)
        forced = self.rules.forced_tokens(positions, limits)[:, None]
        chosen = self._choose(allowed, state.rngs, positions)
        tokens = jnp.where(forced == FREE, chosen, forced)
        gained = jnp.take_along_axis(logits, tokens[..., None], axis=-1)[..., 0]
        gained -= log_sum_exp(logits)
        counts = is_live & (positions[:, None] >= self.rules.num_unscored)
        ends = is_live & (tokens == self.rules.eos)
        return SampleState(
            tokens,
            state.ids.at[:, :, column].set(jnp.where(is_live, tokens, 0)),
            state.log_probs + jnp.where(counts, gained, 0.0),
            jnp.where(ends, positions[:, None] + 1, state.lengths),
            state.rngs,
        )

    def _choose(self, logits: jax.Array, rngs: jax.Array, positions: jax.Array) -> jax.Array:
        """Returns the next token [B, W] of each hypothesis from logits [B, W, V]."""
        if self.temperature == 0.0:
            return first_largest(logits)
        step_rngs = jax.vmap(jax.random.fold_in)(rngs, positions)
        kept = truncate(logits / self.temperature, self.top_k, self.top_p)
        return jax.vmap(jax.random.categorical)(step_rngs, kept)

    def results(self, state: SampleState) -> Hypotheses:
        """Returns the hypotheses, in no order."""
        penalty = self.rules.penalty(state.lengths.astype(jnp.float32))
        return Hypotheses(state.ids, state.log_probs, state.log_probs / penalty)


def truncate(logits: jax.Array, top_k: int = 0, top_p: float = 1.0) -> jax.Array:
    """Returns logits [..., V] with -inf except for the k best and the nucleus of mass p.

    Tokens that tie with the last one kept are kept too. With probabilities 0.5, 0.3, 0.15, 0.05,
    top_p = 0.7 keeps the first two: the first alone has 0.5, both together 0.8.
    """
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


def make_rngs(seed: int, inputs: np.ndarray) -> np.ndarray:
    """Returns a PRNG key for each row of inputs [R, S], as [R, 2].

    A key depends on the seed and the ids of the sentence, not on its row or its padding. Raises
    ValueError for a seed that is no int32.
    """
    if not -(2**31) <= seed < 2**31:
        raise ValueError(f"seed must be from {-(2**31):,} to {2**31 - 1:,}, not {seed}.")
    # Odd multiples of Knuth's constant for hashing; PAD is 0 and adds nothing.
    weights = np.arange(1, 2 * inputs.shape[1], 2, dtype=np.uint32) * np.uint32(2654435761)
    hashes = (inputs.astype(np.uint32) * weights).sum(1, dtype=np.uint32)
    return np.asarray(_fold_in(jax.random.PRNGKey(seed), hashes))


_fold_in = jax.jit(jax.vmap(jax.random.fold_in, (None, 0)))
