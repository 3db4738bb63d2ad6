"""The k best of very many scores, and what else a step needs of them, without a full sort.

Scores are divided into blocks: the k best lie in the k blocks with the largest maxima. Of equal
scores the first one wins, as without blocks. `log_sum_exp` needs the same maxima, which XLA then
computes once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

TPU_LANES = 128  # blocks of this size need no copy on a TPU


class Continuations(NamedTuple):
    """The best continuations of the hypotheses of each sentence, in falling order."""

    values: jax.Array  # [B, count]
    beams: jax.Array  # [B, count], the hypothesis that is continued
    tokens: jax.Array  # [B, count], the token that continues it


def log_sum_exp(x: jax.Array) -> jax.Array:
    """Returns log Σ exp over the last axis, [..., V] -> [...]; not all may be -inf."""
    largest = _block_maxima(x, _block_size(x.shape[-1])).max(-1)
    return largest + jnp.log(jnp.exp(x - largest[..., None]).sum(-1))


def first_largest(x: jax.Array) -> jax.Array:
    """Returns the argmax over the last axis, [..., V] -> [...]."""
    size = _block_size(x.shape[-1])
    block = _argmax(_block_maxima(x, size))
    rows = x.reshape(-1, 1, x.shape[-1])
    scores = _take_blocks(rows, block.reshape(-1, 1), size).reshape(*block.shape, size)
    return block * size + _argmax(scores)


def top_continuations(logits: jax.Array, totals: jax.Array, count: int) -> Continuations:
    """Returns the `count` best of logits [B, W, V] + totals [B, W] of each sentence.

    An example with count = 2, W = 2 and V = 6, in blocks of 2:

        beam 0: logits 5 1 | 0 4 | 3 2, total  0   maxima 5 4 3
        beam 1: logits 6 0 | 1 1 | 0 0, total -2   maxima 4 -1 -2

    Of the maxima the two best are 5 and the first 4, of blocks 0 and 1 of beam 0. Only their scores
    5 1 0 4 are ranked: the results are 5 (beam 0, token 0) and 4 (beam 0, token 3).
    """
    size = _block_size(logits.shape[-1])
    maxima = _block_maxima(logits, size) + totals[..., None]
    rows, width, num_blocks = maxima.shape
    # Results of top_k are never sliced: XLA on the CPU would sort all scores at every step.
    _, best = jax.lax.top_k(maxima.reshape(rows, -1), min(count, width * num_blocks))
    best = jnp.sort(best, axis=-1)  # of equal scores the first has to win
    beams = best // num_blocks
    # Totals are added to the chosen blocks alone: sums of all would be stored and read again.
    scores = _take_blocks(logits, best, size)
    scores += jnp.take_along_axis(totals, beams, axis=1)[..., None]
    values, index = jax.lax.top_k(scores.reshape(rows, -1), count)
    block = jnp.take_along_axis(best, index // size, axis=1)
    tokens = block % num_blocks * size + index % size
    return Continuations(values, block // num_blocks, tokens)


def _block_size(vocab_size: int) -> int:
    """Returns the size of the blocks into which V scores are divided.

    V = 37,000 becomes 296 blocks of 125, the divisor nearest to the ideal of 136; V = 32,000, which
    128 divides, 250 blocks of 128; and V = 127, a prime, 15 blocks of 8 and a last one of 7.
    """
    if vocab_size % TPU_LANES == 0:
        return TPU_LANES
    # The size with the least work: W·V / size block maxima are scanned, and 2W·size scores ranked.
    ideal = (vocab_size / 2) ** 0.5
    sizes = range(round(ideal / 2), round(ideal * 2) + 1)
    divisors = [size for size in sizes if size and vocab_size % size == 0]
    return min(divisors or [round(ideal)], key=lambda size: abs(size - ideal))


def _block_maxima(x: jax.Array, size: int) -> jax.Array:
    """Returns the largest score of each block, [..., V] -> [..., num_blocks]."""
    missing = -x.shape[-1] % size
    if not missing:
        return x.reshape(*x.shape[:-1], -1, size).max(-1)
    # A window knows where x ends; x padded to whole blocks would be a copy of all scores.
    shape, unpadded = (*[1] * (x.ndim - 1), size), [(0, 0)] * (x.ndim - 1)
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, shape, shape, [*unpadded, (0, missing)])


def _take_blocks(x: jax.Array, chosen: jax.Array, size: int) -> jax.Array:
    """Returns the scores [B, K, size] of the blocks `chosen` [B, K] of x [B, W, V].

    Blocks are numbered through the W beams; behind the end of a beam's last block is -inf.
    """
    rows, _, vocab_size = x.shape
    if vocab_size % size == 0:
        return jnp.take_along_axis(x.reshape(rows, -1, size), chosen[..., None], axis=1)
    num_blocks = -(-vocab_size // size)
    tokens = (chosen % num_blocks * size)[..., None] + jnp.arange(size)
    indices = (chosen // num_blocks)[..., None] * vocab_size + jnp.minimum(tokens, vocab_size - 1)
    taken = jnp.take_along_axis(x.reshape(rows, -1), indices.reshape(rows, -1), axis=1)
    return jnp.where(tokens < vocab_size, taken.reshape(indices.shape), -jnp.inf)


def _argmax(x: jax.Array) -> jax.Array:
    """Returns the argmax over the last axis by two reductions.

    XLA on the CPU does them ten times as fast as one reduction of pairs.
    """
    index = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    is_largest = x == x.max(-1, keepdims=True)
    return jnp.where(is_largest, index, x.shape[-1] - 1).min(-1)
