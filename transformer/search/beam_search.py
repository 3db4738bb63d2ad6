"""Beam search, which by default ends when no live hypothesis can win any more."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.decoding import FREE, Array, Hypotheses, HypothesisRules, Limits
from transformer.search.top_k import Continuations, log_sum_exp, top_continuations


class BeamState(NamedTuple):
    """The live hypotheses of every sentence, and the best that have finished."""

    tokens: jax.Array  # [B, W], the last token of each, BOS at first
    ids: jax.Array  # [B, W, L], without BOS, 0 in columns without a token
    log_probs: jax.Array  # [B, W], -inf where no hypothesis is live
    ancestors: jax.Array  # [B, W, L], see `decoding`
    finished: Hypotheses


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

    def start(self, rngs: Array, length: int) -> BeamState:
        """Returns a state with one live, empty hypothesis per sentence; nothing is drawn."""
        shape = (rngs.shape[0], self.width)
        no_ids, none = jnp.zeros((*shape, length), jnp.int32), jnp.full(shape, -jnp.inf)
        return BeamState(
            tokens=jnp.full(shape, self.rules.bos),
            ids=no_ids,
            log_probs=none.at[:, 0].set(0.0),
            ancestors=jnp.full((*shape, length), -1),
            finished=Hypotheses(no_ids, none, none),
        )

    def is_finished(self, limits: Limits, state: BeamState) -> jax.Array:
        """Returns which sentences [B] have results that no further step changes."""
        best_possible = state.log_probs.max(1) / self.rules.penalty(limits.max_lengths)
        can_win = best_possible > state.finished.scores[:, self.nbest - 1]
        if self.early_stopping:
            can_win &= state.finished.scores[:, -1] == -jnp.inf  # until W have finished
        return ~can_win | (limits.max_lengths == 0)

    def ancestors(self, state: BeamState, positions: jax.Array, column: jax.Array) -> jax.Array:
        """Returns the table [B, W, L] in which each hypothesis has written `column` itself."""
        del positions
        return state.ancestors.at[:, :, column].set(jnp.arange(self.width))

    def extend(
        self, limits: Limits, state: BeamState, logits: jax.Array, positions: jax.Array, column: Any
    ) -> BeamState:
        """Extends the live hypotheses by one token: their 2W best continuations end or stay live.

        Those that end compete with the finished ones; of the others the W best stay live.
        """
        rows = jnp.arange(state.ids.shape[0])[:, None]
        totals = state.log_probs - log_sum_exp(logits)  # totals + logits: log p with the token
        allowed = self.rules.mask_early_end(logits, positions)
        best = top_continuations(allowed, totals, 2 * self.width)
        forced = self.rules.forced_tokens(positions, limits)
        given = totals + jnp.take_along_axis(logits, forced[:, None, None], axis=-1)[..., 0]
        is_unscored = positions[:, None] < self.rules.num_unscored
        given = jnp.where(is_unscored, state.log_probs, given)
        log_probs, parents, tokens = self._apply_forced(forced, given, best)

        ids = state.ids[rows, parents].at[:, :, column].set(tokens)
        is_end = counts = tokens == self.rules.eos
        if self.early_stopping:
            counts = is_end & (jnp.arange(2 * self.width) < self.width)
        ended = jnp.where(counts, log_probs, -jnp.inf)
        scores = ended / self.rules.penalty(positions[:, None] + 1.0)
        new = Hypotheses(ids, ended, scores)
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), state.finished, new)
        _, kept = jax.lax.top_k(both.scores, self.width)  # of equal scores the old ones
        finished = jax.tree.map(lambda x: x[rows, kept], both)
        live = jnp.where(is_end, -jnp.inf, log_probs)
        log_probs, kept = jax.lax.top_k(live, self.width)
        ancestors = self.ancestors(state, positions, column)[rows, parents[rows, kept]]
        return BeamState(tokens[rows, kept], ids[rows, kept], log_probs, ancestors, finished)

    def _apply_forced(
        self, forced: jax.Array, log_probs: jax.Array, best: Continuations
    ) -> Continuations:
        """Returns `best`, but in sentences with a forced token [B] every beam continued by that.

        log_probs: those of the beams [B, W] with the forced token.
        """
        beams = jnp.broadcast_to(jnp.arange(self.width), log_probs.shape)
        none = jnp.full_like(log_probs, -jnp.inf)
        continued = Continuations(
            jnp.concatenate([log_probs, none], axis=1),
            jnp.concatenate([beams, beams], axis=1),
            jnp.broadcast_to(forced[:, None], (forced.shape[0], 2 * self.width)),
        )
        is_free = (forced == FREE)[:, None]
        return jax.tree.map(lambda a, b: jnp.where(is_free, a, b), best, continued)

    def results(self, state: BeamState) -> Hypotheses:
        """Returns the `nbest` best finished hypotheses, best first."""
        return Hypotheses(*(array[:, : self.nbest] for array in state.finished))
