"""Beam search, by default with an exact end: when no live hypothesis can win any more."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.decoding import FREE, Hypotheses, HypothesisRules
from transformer.search.top_k import log_sum_exp, top_continuations


class Beams(NamedTuple):
    """The live hypotheses of every sentence, and the best that have ended."""

    ids: jax.Array  # [B, W, T+1], BOS first
    log_probs: jax.Array  # [B, W]
    ancestors: jax.Array  # [B, W, T]
    finished: Hypotheses
    cache: Any


@dataclass(frozen=True)
class BeamSearch:
    """The `width` best hypotheses that beam search finds, as far as the `nbest` best are certain.

    At each step the 2W best continuations are looked at, so that W remain even if W of them end.
    A sentence is done when no live hypothesis can still enter its `nbest` best: the bound is exact,
    as a log-probability only falls and is divided by no more than the longest's penalty.

    early_stopping: also when W hypotheses have ended, each of them among the W best of its step, as
    in fairseq, CTranslate2 and Hugging Face. What would come later and be better is not found then.
    """

    rules: HypothesisRules
    width: int
    nbest: int = 1
    early_stopping: bool = False

    def start(self, limits, cache):
        """One live hypothesis a sentence, which is empty."""
        num_sentences, max_length = limits.forced.shape
        shape = (num_sentences, self.width)
        none = jnp.full(shape, -jnp.inf)
        return Beams(
            ids=jnp.zeros((*shape, max_length + 1), jnp.int32).at[:, :, 0].set(self.rules.bos),
            log_probs=none.at[:, 0].set(0.0),
            ancestors=jnp.full((*shape, max_length), -1),
            finished=Hypotheses(jnp.zeros((*shape, max_length), jnp.int32), none, none),
            cache=cache,
        )

    def is_finished(self, limits, beams):
        """Sentences [B] whose results no further step changes."""
        best_possible = beams.log_probs.max(1) / self.rules.penalty(limits.max_lengths)
        can_win = best_possible > beams.finished.scores[:, self.nbest - 1]
        if self.early_stopping:
            can_win &= ~_is_full(beams)
        return ~can_win | (limits.max_lengths == 0)

    def extend(self, step_fn, limits, beams, position):
        """All hypotheses longer by one piece."""
        rows = jnp.arange(beams.ids.shape[0])[:, None]
        tokens = jax.lax.dynamic_index_in_dim(beams.ids, position, axis=2, keepdims=False)
        ancestors = beams.ancestors.at[:, :, position].set(jnp.arange(self.width))
        logits, cache = step_fn(tokens, beams.cache, position, ancestors)
        totals = beams.log_probs - log_sum_exp(logits)  # + logits: log p of the whole
        allowed = self.rules.without_early_end(logits, position)
        found = top_continuations(allowed, totals, 2 * self.width)
        required = self.rules.required(position, limits)
        candidates, parents, pieces = self._keep_to(required, found, logits, totals)
        ids = beams.ids[rows, parents].at[:, :, position + 1].set(pieces)
        ends = pieces == self.rules.eos
        counts = ends
        if self.early_stopping:  # a sentence that is done takes nothing more
            counts = ends & (jnp.arange(2 * self.width) < self.width) & ~_is_full(beams)[:, None]
        ended = jnp.where(counts, candidates, -jnp.inf)
        scores = ended / self.rules.penalty(position + 1.0)
        finished = _best(beams.finished, Hypotheses(ids[:, :, 1:], ended, scores))
        live = jnp.where(ends, -jnp.inf, candidates)
        log_probs, kept = jax.lax.top_k(live, self.width)
        return Beams(
            ids[rows, kept], log_probs, ancestors[rows, parents[rows, kept]], finished, cache
        )

    def _keep_to(self, required, found, logits, totals):
        """What was found; where a piece is required, every hypothesis goes on with that alone."""
        piece = jnp.maximum(required, 0)[:, None]
        log_probs = totals + jnp.take_along_axis(logits, piece[..., None], axis=-1)[..., 0]
        beams = jnp.broadcast_to(jnp.arange(self.width), log_probs.shape)
        nobody = jnp.full_like(log_probs, -jnp.inf)
        only = (
            jnp.concatenate([log_probs, nobody], axis=1),
            jnp.concatenate([beams, beams], axis=1),
            jnp.broadcast_to(piece, (len(piece), 2 * self.width)),
        )
        is_free = (required == FREE)[:, None]
        return tuple(jnp.where(is_free, a, b) for a, b in zip(found, only, strict=True))

    def results(self, beams):
        """`Hypotheses`, best first."""
        return beams.finished


def _is_full(beams):
    """Sentences [B] of which W hypotheses have ended."""
    return beams.finished.scores[:, -1] > -jnp.inf


def _best(old, new):
    """The W best of two sets of hypotheses; of equals the old ones."""
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), old, new)
    _, kept = jax.lax.top_k(both.scores, old.scores.shape[1])
    return jax.tree.map(lambda x: x[jnp.arange(x.shape[0])[:, None], kept], both)
