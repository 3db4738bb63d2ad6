"""Tiny models, parameters and batches for the tests of the tensor rooms."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from transformer.config import ModelConfig
from transformer.data.batch import Batch
from transformer.model.encoder_decoder import Transformer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL

VOCAB_SIZE = 12


def tiny_config(**changes):
    """A two-layer model without dropout, changed as told."""
    tiny = dict(d_model=16, d_ff=32, num_heads=2, num_layers=2, dropout_rate=0.0, max_positions=16)
    return ModelConfig(**(tiny | changes))


def tiny_model(**changes):
    return Transformer(tiny_config(**changes), VOCAB_SIZE, VOCAB_SIZE)


def count_parameters(config, source_vocab_size, target_vocab_size):
    """The number of weights of a `Transformer`, by the shapes of its parameters alone."""
    model = Transformer(config, source_vocab_size, target_vocab_size)
    init = partial(model.init, deterministic=True)
    shapes = jax.eval_shape(init, {"params": jax.random.key(0)}, Batch.zeros(1, 1))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def random_params(init, *args, **kwargs):
    """Parameters of the shapes that `init` gives, at random: no bias is 0, no norm's scale is 1."""
    shapes = jax.eval_shape(partial(init, **kwargs), {"params": jax.random.key(0)}, *args)["params"]
    rng = np.random.default_rng(0)

    def fill(path, leaf):
        noise = rng.normal(size=leaf.shape) * leaf.shape[-1] ** -0.5
        return jnp.float32(noise + (path[-1].key == "scale"))

    return jax.tree_util.tree_map_with_path(fill, shapes)


def sentence(rng, length):
    """`length` random ids, the last of them EOS."""
    return [*rng.integers(NUM_SPECIAL, VOCAB_SIZE, length - 1).tolist(), EOS]


def make_batch(rows, source_length, target_length):
    """rows: lists of (source ids, target ids), one after the other; an empty list is padding."""
    source = np.zeros((4, len(rows), source_length), np.int32)
    target = np.zeros((4, len(rows), target_length), np.int32)
    for row, pairs in enumerate(rows):
        for side, arrays in enumerate((source, target)):
            start = 0
            for segment, pair in enumerate(pairs, start=1):
                ids = pair[side]
                places = slice(start, start + len(ids))
                arrays[:, row, places] = [
                    ids,
                    [segment] * len(ids),
                    range(len(ids)),
                    [BOS, *ids[:-1]],
                ]
                start += len(ids)
    return Batch(*source[:3], target[3], *target[:3])
