"""The best few of very many scores, without ranking them all.

Scores are looked at in blocks: the best lie in the blocks with the largest maxima. Of equal scores
the first one wins, as without blocks. The maxima are those of the sum of exponentials, too, and
computed once where both are wanted.
"""

import jax
import jax.numpy as jnp

LANES = 128  # of a TPU: blocks of as many are no copy there


def log_sum_exp(x):
    """log Σ exp over the last axis: [..., V] -> [...]; some must be above -inf."""
    largest = _in_blocks(x).max(-1).max(-1)
    return largest + jnp.log(jnp.exp(x - largest[..., None]).sum(-1))


def first_largest(x):
    """argmax over the last axis: [..., V] -> [...]."""
    blocks = _in_blocks(x)
    block = _argmax(blocks.max(-1))
    scores = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]
    return block * blocks.shape[-1] + _argmax(scores)


def top_continuations(logits, totals, count):
    """The `count` best of logits [B, W, V] + totals [B, W]: (values, beams, pieces) [B, count].

    The results of top_k are not sliced: XLA on the CPU would sort all W·V scores at every step.
    """
    blocks = _in_blocks(logits)
    rows, width, num_blocks, size = blocks.shape
    maxima = (blocks.max(-1) + totals[..., None]).reshape(rows, -1)
    _, best = jax.lax.top_k(maxima, min(count, width * num_blocks))
    best = jnp.sort(best, axis=-1)
    beams = best // num_blocks
    # The sums are made for the chosen blocks alone: those of all would be stored and read again.
    scores = jnp.take_along_axis(blocks.reshape(rows, -1, size), best[..., None], axis=1)
    scores += jnp.take_along_axis(totals, beams, axis=1)[..., None]
    values, places = jax.lax.top_k(scores.reshape(rows, -1), count)
    block = jnp.take_along_axis(best, places // size, axis=1)
    return values, block // num_blocks, block % num_blocks * size + places % size


def _in_blocks(x):
    """[..., V] -> [..., blocks, size], the last one filled up with -inf."""
    ideal = (x.shape[-1] / 2) ** 0.5  # of 2W blocks out of W·V / size as many scores are chosen
    sizes = range(round(ideal / 2), round(ideal * 2) + 1)
    full = [size for size in sizes if size and x.shape[-1] % size == 0]
    size = min(full or [round(ideal)], key=lambda size: abs(size - ideal))
    if x.shape[-1] % LANES == 0:
        size = LANES
    missing = -x.shape[-1] % size
    if missing:  # goes through all scores once more: a few times the cost of the rest
        padding = [(0, 0)] * (x.ndim - 1) + [(0, missing)]
        x = jnp.pad(x, padding, constant_values=-jnp.inf)
    return x.reshape(*x.shape[:-1], -1, size)


def _argmax(x):
    """As two reductions: XLA on the CPU does them ten times as fast as one of pairs."""
    places = jax.lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)
    is_largest = x == x.max(-1, keepdims=True)
    return jnp.where(is_largest, places, x.shape[-1] - 1).min(-1)
