"""Beam search, which by default ends when no live hypothesis can win any more."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.decoding import (
    FREE,
    Array,
    Cache,
    Hypotheses,
    HypothesisRules,
    Limits,
    StepFn,
)
from transformer.search.top_k import Continuations, log_sum_exp, top_continuations


class BeamState(NamedTuple):
    """The live hypotheses of every sentence, and the best that have finished."""

    ids: jax.Array  # [B, W, T+1], BOS first
    log_probs: jax.Array  # [B, W], -inf where no hypothesis is live
    ancestors: jax.Array  # [B, W, T], see `decoding`
    finished: Hypotheses
    cache: Cache


@dataclass(frozen=True)
class BeamSearch:
    """Beam search of `width` W for the `nbest` best hypotheses.

    Each step considers the 2W best continuations, so that W remain live even if W of them end. A
    sentence is finished when no live hypothesis can still enter its `nbest` best. The bound is
    exact: a log-probability only falls, and is divided by at most the penalty of the longest.

    early_stopping: a sentence is also finished when W hypotheses have ended, each among the W best
    of its step, as in fairseq, CTranslate2 and Hugging Face. A better one that would end later is
    not found then.
    """

    rules: HypothesisRules
    width: int
    nbest: int = 1
    early_stopping: bool = False

    def start(self, limits: Limits, cache: Cache, rngs: Array | None = None) -> BeamState:
        """Returns a state with one live, empty hypothesis per sentence; nothing is drawn."""
        num_sentences, max_length = limits.forced.shape
        shape = (num_sentences, self.width)
        none = jnp.full(shape, -jnp.inf)
        return BeamState(
            ids=jnp.zeros((*shape, max_length + 1), jnp.int32).at[:, :, 0].set(self.rules.bos),
            log_probs=none.at[:, 0].set(0.0),
            ancestors=jnp.full((*shape, max_length), -1),
            finished=Hypotheses(jnp.zeros((*shape, max_length), jnp.int32), none, none),
            cache=cache,
        )

    def is_finished(self, limits: Limits, state: BeamState) -> jax.Array:
        """Returns which sentences [B] have results that no further step changes."""
        best_possible = state.log_probs.max(1) / self.rules.penalty(limits.max_lengths)
        can_win = best_possible > state.finished.scores[:, self.nbest - 1]
        if self.early_stopping:
            can_win &= ~_is_full(state)
        return ~can_win | (limits.max_lengths == 0)

    def extend(
        self, step_fn: StepFn, limits: Limits, state: BeamState, position: jax.Array
    ) -> BeamState:
        """Extends the live hypotheses by one token: their 2W best continuations end or stay live.

        Those that end compete with the finished ones; of the others the W best stay live.
        """
        rows = jnp.arange(state.ids.shape[0])[:, None]
        tokens = jax.lax.dynamic_index_in_dim(state.ids, position, axis=2, keepdims=False)
        ancestors = state.ancestors.at[:, :, position].set(jnp.arange(self.width))
        logits, cache = step_fn(tokens, state.cache, position, ancestors)
        totals = state.log_probs - log_sum_exp(logits)  # totals + logits: log p with the token
        allowed = self.rules.mask_early_end(logits, position)
        best = top_continuations(allowed, totals, 2 * self.width)
        forced = self.rules.forced_tokens(position, limits)
        log_probs, parents, tokens = self._apply_forced(forced, best, logits, totals)

        ids = state.ids[rows, parents].at[:, :, position + 1].set(tokens)
        is_end = tokens == self.rules.eos
        counts = is_end
        if self.early_stopping:  # a sentence that is finished accepts no more hypotheses
            is_among_best = jnp.arange(2 * self.width) < self.width
            counts = is_end & is_among_best & ~_is_full(state)[:, None]
        ended = jnp.where(counts, log_probs, -jnp.inf)
        scores = ended / self.rules.penalty(position + 1.0)
        finished = _merge_best(state.finished, Hypotheses(ids[:, :, 1:], ended, scores))
        live = jnp.where(is_end, -jnp.inf, log_probs)
        log_probs, kept = jax.lax.top_k(live, self.width)
        return BeamState(
            ids[rows, kept], log_probs, ancestors[rows, parents[rows, kept]], finished, cache
        )

    def _apply_forced(
        self, forced: jax.Array, best: Continuations, logits: jax.Array, totals: jax.Array
    ) -> Continuations:
        """Returns `best`, but in sentences with a forced token [B] every beam continued by that."""
        token = jnp.maximum(forced, 0)[:, None]
        log_probs = totals + jnp.take_along_axis(logits, token[..., None], axis=-1)[..., 0]
        beams = jnp.broadcast_to(jnp.arange(self.width), log_probs.shape)
        none = jnp.full_like(log_probs, -jnp.inf)
        continued = Continuations(
            jnp.concatenate([log_probs, none], axis=1),
            jnp.concatenate([beams, beams], axis=1),
            jnp.broadcast_to(token, (token.shape[0], 2 * self.width)),
        )
        is_free = (forced == FREE)[:, None]
        return jax.tree.map(lambda a, b: jnp.where(is_free, a, b), best, continued)

    def results(self, state: BeamState) -> Hypotheses:
        """Returns the finished hypotheses, best first."""
        return state.finished


def _is_full(state: BeamState) -> jax.Array:
    """Returns the sentences [B] of which W hypotheses have finished."""
    return state.finished.scores[:, -1] > -jnp.inf


def _merge_best(old: Hypotheses, new: Hypotheses) -> Hypotheses:
    """Returns the W best of both; of equal scores the old ones."""
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), old, new)
    _, kept = jax.lax.top_k(both.scores, old.scores.shape[1])
    return jax.tree.map(lambda x: x[jnp.arange(x.shape[0])[:, None], kept], both)
