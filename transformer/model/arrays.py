"""The arrays that go into a model: a packed `Batch`, or plain ids with one sentence per row."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer.data.batch import Batch
from transformer.special_tokens import BOS, EOS, PAD

Array = jax.Array | np.ndarray


def as_batch(inputs: Batch | Array, targets: Array | None = None) -> Batch:
    """Returns a packed `Batch` as it is, and plain arrays as a `Batch` of one sentence per row.

    inputs [B, S], targets [B, T]: ids, PAD behind the end of each sentence. In contrast to
    `Batch.from_arrays` this can be traced by JAX. Without targets a row has a single target, as a
    sentence has a single class. For example, with BOS = 1 and EOS = 2:

        targets           7 8 2 0
        target_segments   1 1 1 0
        target_positions  0 1 2 0
        decoder_inputs    1 7 8 0

    Raises ValueError if a `Batch`, which has targets, comes with others.
    """
    if isinstance(inputs, Batch):
        if targets is not None:
            raise ValueError("A packed Batch has its own targets: give either it or two arrays.")
        return inputs
    if targets is None:
        targets = jnp.full((inputs.shape[0], 1), EOS)
    source, target = _one_per_row(inputs), _one_per_row(targets)
    arrays: tuple[Any, ...] = (*source, _shift_right(*target), *target)
    return Batch(*arrays)


def _one_per_row(ids: Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns (ids, segments, positions) of one sentence per row, each [B, length] int32."""
    ids = jnp.asarray(ids, jnp.int32)
    segments = (ids != PAD).astype(jnp.int32)
    return ids, segments, jnp.arange(ids.shape[1], dtype=jnp.int32) * segments


def _shift_right(ids: jax.Array, segments: jax.Array, positions: jax.Array) -> jax.Array:
    """Returns the decoder's inputs [B, T]: each sentence shifted by one, BOS in front."""
    shifted = jnp.where(positions == 0, BOS, jnp.roll(ids, 1, axis=1))
    return jnp.where(segments == 0, PAD, shifted)
