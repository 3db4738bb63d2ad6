"""Given translations through the model in one pass: log-probabilities, and where it looked."""

from functools import partial

import jax
import numpy as np

from transformer.data.batch import Batch
from transformer.data.bucketing import bucket_lengths
from transformer.data.ragged import Ragged
from transformer.model.loss import cross_entropy
from transformer.search.continuous_batching import split
from transformer.special_tokens import EOS


def pairs_batch(source, target, indices, length):
    """A `Batch` with one pair a row, padded to `length`; an index of -1 is a row without one."""
    return Batch.from_pairs(
        source,
        target,
        indices[indices >= 0],
        pairs_per_row=(indices >= 0).astype(int),
        source_length=length,
        target_length=length,
    )


def smallest_batch():
    """One pair of the shortest sentences, for the shapes of parameters."""
    return pairs_batch(Ragged.from_lists([[EOS]]), Ragged.from_lists([[EOS]]), np.array([0]), 1)


def make_log_probs(model, replicas):
    """A function (params, plan, source, target) -> log p of every target, EOS included.

    plan: of the longer sides, as `bucketing.plan_batches` yields it; source, target: a `Ragged`.
    """

    @jax.jit
    def of_batch(params, batch):
        logits = model.apply({"params": params}, batch, deterministic=True)
        per_row = jax.vmap(lambda *row: cross_entropy(*row)[0])
        return -per_row(logits, batch.targets, batch.weights)

    def log_probs(params, plan, source, target):
        found = np.zeros(len(target), np.float32)
        for indices, bucket in plan:
            rows = indices.ravel()
            inside = rows[rows >= 0]
            batch = pairs_batch(source, target, rows, bucket)
            of_rows = jax.device_get(of_batch(params, split(replicas, batch)))
            found[inside] = of_rows[rows >= 0]
        return found

    return log_probs


def make_attention(model):
    """(params, source ids, target ids) -> the decoder's looks at the source [layers, N, T, S]."""

    @jax.jit
    def attend(params, batch):
        apply = partial(model.apply, deterministic=True, mutable="intermediates")
        blocks = apply({"params": params}, batch)[1]["intermediates"]["decoder"]
        names = sorted(blocks, key=lambda name: int(name.rpartition("_")[2]))
        return [blocks[name]["encoder_attention"]["weights"][0] for name in names]

    def attention(params, source, target):
        lengths = len(target), len(source)
        length = next(size for size in bucket_lengths(max(lengths)) if size >= max(lengths))
        pair = Ragged.from_lists([source]), Ragged.from_lists([target])
        batch = pairs_batch(*pair, np.array([0]), length)
        weights = np.stack(jax.device_get(attend(params, batch)))[:, 0]  # [layers, T, N, S]
        return weights.transpose(0, 2, 1, 3)[:, :, : lengths[0], : lengths[1]]

    return attention
