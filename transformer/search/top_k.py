"""The k best of very many scores, and what else a step needs of them, without a full sort.

Scores are divided into blocks: the k best lie in the k blocks with the largest maxima. Of equal
scores the first one wins, as without blocks. `log_sum_exp` needs the same maxima, which XLA then
computes once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

TPU_LANES = 128  # blocks of this size need no copy on a TPU


class Continuations(NamedTuple):
    """The best continuations of the hypotheses of each sentence, in falling order."""

    values: jax.Array  # [B, count]
    beams: jax.Array  # [B, count], the hypothesis that is continued
    tokens: jax.Array  # [B, count], the token that continues it


def log_sum_exp(x: jax.Array) -> jax.Array:
    """Returns log Σ exp over the last axis, [..., V] -> [...]; not all may be -inf."""
    largest = _in_blocks(x).max(-1).max(-1)
    return largest + jnp.log(jnp.exp(x - largest[..., None]).sum(-1))


def first_largest(x: jax.Array) -> jax.Array:
    """Returns the argmax over the last axis, [..., V] -> [...]."""
    blocks = _in_blocks(x)
    block = _argmax(blocks.max(-1))
    scores = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]
    return block * blocks.shape[-1] + _argmax(scores)


def top_continuations(logits: jax.Array, totals: jax.Array, count: int) -> Continuations:
    """Returns the `count` best of logits [B, W, V] + totals [B, W] of each sentence.

    An example with count = 2, W = 2 and V = 6, in blocks of 2:

        beam 0: logits 5 1 | 0 4 | 3 2, total  0   maxima 5 4 3
        beam 1: logits 6 0 | 1 1 | 0 0, total -2   maxima 4 -1 -2

    Of the maxima the two best are 5 and the first 4, of blocks 0 and 1 of beam 0. Only their scores
    5 1 0 4 are ranked: the results are 5 (beam 0, token 0) and 4 (beam 0, token 3).
    """
    blocks = _in_blocks(logits)
    rows, width, num_blocks, block_size = blocks.shape
    maxima = (blocks.max(-1) + totals[..., None]).reshape(rows, -1)  # [B, W · num_blocks]
    # Results of top_k are never sliced: XLA on the CPU would sort all scores at every step.
    _, best = jax.lax.top_k(maxima, min(count, width * num_blocks))
    best = jnp.sort(best, axis=-1)  # of equal scores the first has to win
    beams = best // num_blocks
    # Totals are added to the chosen blocks alone: sums of all would be stored and read again.
    scores = jnp.take_along_axis(blocks.reshape(rows, -1, block_size), best[..., None], axis=1)
    scores += jnp.take_along_axis(totals, beams, axis=1)[..., None]
    values, index = jax.lax.top_k(scores.reshape(rows, -1), count)
    block = jnp.take_along_axis(best, index // block_size, axis=1)
    tokens = block % num_blocks * block_size + index % block_size
    return Continuations(values, block // num_blocks, tokens)


def _in_blocks(x: jax.Array) -> jax.Array:
    """Divides the last axis into blocks, [..., V] -> [..., blocks, size], padded with -inf.

    V = 37,000 becomes 296 blocks of 125, the divisor nearest to the ideal of 136; V = 32,000, which
    128 divides, 250 blocks of 128; and V = 127, a prime, 16 blocks of 8 with one -inf.
    """
    # The size with the least work: W·V / size block maxima are scanned, and 2W·size scores ranked.
    ideal = (x.shape[-1] / 2) ** 0.5
    sizes = range(round(ideal / 2), round(ideal * 2) + 1)
    divisors = [size for size in sizes if size and x.shape[-1] % size == 0]
    size = min(divisors or [round(ideal)], key=lambda size: abs(size - ideal))
    if x.shape[-1] % TPU_LANES == 0:
        size = TPU_LANES
    missing = -x.shape[-1] % size
    if missing:  # padding copies all scores, which costs several times the rest
        padding = [(0, 0)] * (x.ndim - 1) + [(0, missing)]
        x = jnp.pad(x, padding, constant_values=-jnp.inf)
    return x.reshape(*x.shape[:-1], -1, size)


def _argmax(x: jax.Array) -> jax.Array:
    """Returns the argmax over the last axis by two reductions.

    XLA on the CPU does them ten times as fast as one reduction of pairs.
    """
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    is_largest = x == x.max(-1, keepdims=True)
    return jnp.where(is_largest, index, x.shape[-1] - 1).min(-1)
