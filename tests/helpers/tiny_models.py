"""Tiny models, parameters and batches for the tests of whatever computes with a model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tests.helpers.control_ids import EOS
from transformer.config import ModelConfig
from transformer.data.rows.batch import Batch
from transformer.data.rows.ragged import Ragged
from transformer.model.encoder_decoder import Transformer
from transformer.special_tokens import NUM_SPECIAL

VOCAB_SIZE = 12


def tiny_config(**changes):
    """A configuration of two layers without dropout, with these changes."""
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
    """Random parameters of the shapes that `init` gives; no bias is 0, no scale is 1."""
    shapes = jax.eval_shape(partial(init, **kwargs), {"params": jax.random.key(0)}, *args)["params"]
    rng = np.random.default_rng(0)

    def fill(path, leaf):
        noise = rng.normal(size=leaf.shape) * leaf.shape[-1] ** -0.5
        return jnp.asarray(noise + (path[-1].key == "scale"), jnp.float32)

    return jax.tree_util.tree_map_with_path(fill, shapes)


def sentence(rng, length):
    """`length` random ids, the last of them EOS."""
    return [*rng.integers(NUM_SPECIAL, VOCAB_SIZE, length - 1).tolist(), EOS]


def make_batch(rows, source_length, target_length):
    """Packs rows of pairs (source ids, target ids); an empty row is padding."""
    pairs = [pair for row in rows for pair in row]
    sides = [Ragged.from_lists(pair[side] for pair in pairs) for side in (0, 1)]
    per_row = np.array([len(row) for row in rows])
    return Batch.from_pairs(sides, np.arange(len(pairs)), per_row, (source_length, target_length))
