"""Beam search, with an end that is exact: it stops when no live hypothesis can win any more."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.decoding import Hypotheses, Rules


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
    """

    rules: Rules
    width: int
    nbest: int = 1

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

    def is_done(self, limits, beams):
        """Sentences [B] whose results no further step changes."""
        best_possible = beams.log_probs.max(1) / self.rules.penalty(limits.max_lengths)
        can_win = best_possible > beams.finished.scores[:, self.nbest - 1]
        return ~can_win | (limits.max_lengths == 0)

    def extend(self, step_fn, limits, beams, position):
        """All hypotheses longer by one piece."""
        rows = jnp.arange(beams.ids.shape[0])[:, None]
        tokens = jax.lax.dynamic_index_in_dim(beams.ids, position, axis=2, keepdims=False)
        ancestors = beams.ancestors.at[:, :, position].set(jnp.arange(self.width))
        logits, cache = step_fn(tokens, beams.cache, position, ancestors)
        log_probs = self.rules.log_softmax(logits, position, limits)
        candidates, parents, pieces = _top(beams.log_probs[..., None] + log_probs, 2 * self.width)
        ids = beams.ids[rows, parents].at[:, :, position + 1].set(pieces)
        ends = pieces == self.rules.eos
        ended = jnp.where(ends, candidates, -jnp.inf)
        scores = ended / self.rules.penalty(position + 1.0)
        finished = _best(beams.finished, Hypotheses(ids[:, :, 1:], ended, scores))
        live = jnp.where(ends, -jnp.inf, candidates)
        log_probs, kept = jax.lax.top_k(live, self.width)
        return Beams(
            ids[rows, kept], log_probs, ancestors[rows, parents[rows, kept]], finished, cache
        )

    def results(self, beams):
        """`Hypotheses`, best first."""
        return beams.finished


BLOCKS = 64, 256  # the least and the most scores in one, of which at first only the largest counts


def _top(log_probs, count):
    """The `count` best of [B, W, V]: (values, beams, pieces), each [B, count].

    They lie in the `count` blocks with the largest maxima, so that few scores have to be ranked.
    The results of top_k are not sliced: XLA on the CPU would sort all W·V scores at every step.
    """
    rows, _, vocab_size = log_probs.shape
    flat = log_probs.reshape(rows, -1)
    size = _block_size(flat.shape[1])
    missing = max(-flat.shape[1] % size, count * size - flat.shape[1])
    if missing:  # padding goes through all scores once more: a few times the cost of the rest
        flat = jnp.pad(flat, ((0, 0), (0, missing)), constant_values=-jnp.inf)
    blocks = flat.reshape(rows, -1, size)
    _, best = jax.lax.top_k(blocks.max(-1), count)
    best = jnp.sort(best, axis=-1)  # of equal scores the first wins, as without blocks
    scores = jnp.take_along_axis(blocks, best[..., None], axis=1).reshape(rows, -1)
    values, places = jax.lax.top_k(scores, count)
    places = jnp.take_along_axis(best, places // size, axis=1) * size + places % size
    return values, places // vocab_size, places % vocab_size


def _block_size(number):
    """Such that blocks are full, if there is one; the nearest to the larger limit."""
    least, most = BLOCKS
    return next((size for size in range(most, least - 1, -1) if number % size == 0), most)


def _best(old, new):
    """The W best of two sets of hypotheses; of equals the old ones."""
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), old, new)
    _, kept = jax.lax.top_k(both.scores, old.scores.shape[1])
    return jax.tree.map(lambda x: x[jnp.arange(x.shape[0])[:, None], kept], both)
