"""Computes log-probabilities and attention weights of given translations in one pass each."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh

from transformer.checkpoint.train_state import Params
from transformer.console import phase
from transformer.data.batch import Batch
from transformer.data.bucketing import bucket_lengths
from transformer.data.ragged import Ragged
from transformer.model.loss import cross_entropy
from transformer.search.replicas import split_rows


def one_pair_per_row(source: Ragged, target: Ragged, indices: np.ndarray, length: int) -> Batch:
    """Returns a `Batch` of the pairs `indices`, padded to `length`; -1 is a row without a pair."""
    return Batch.from_pairs(
        source,
        target,
        indices[indices >= 0],
        pairs_per_row=(indices >= 0).astype(int),
        source_length=length,
        target_length=length,
    )


def make_log_probs(model: nn.Module, replicas: Mesh) -> Callable[..., np.ndarray]:
    """Returns log_probs(params, plan, source, target): log p of each target, EOS included."""

    @jax.jit
    def batch_log_probs(params: Params, batch: Batch) -> jax.Array:  # [B]
        logits: Any = model.apply({"params": params}, batch, deterministic=True)

        def nll(*row: Any) -> jax.Array:
            return cross_entropy(*row)[0]

        return -jax.vmap(nll)(logits, batch.targets, batch.weights)

    def log_probs(
        params: Params, plan: Iterable[tuple[np.ndarray, int]], source: Ragged, target: Ragged
    ) -> np.ndarray:
        """Computes the batches of a plan of `bucketing.plan_batches` by the longer sides."""
        found = np.zeros(len(target), np.float32)
        with phase("scoring references", len(target)) as scoring:
            for indices, bucket in plan:
                rows = indices.ravel()
                batch = one_pair_per_row(source, target, rows, bucket)
                values = jax.device_get(batch_log_probs(params, split_rows(replicas, batch)))
                found[rows[rows >= 0]] = values[rows >= 0]
                scoring.advance(int((rows >= 0).sum()))
        return found

    return log_probs


def make_attention_weights(model: nn.Module) -> Callable[..., np.ndarray]:
    """Returns attention_weights(params, source, target) of the ids of one pair.

    Its result holds the weights of the decoder's attention to the source, [layers, N, T, S].
    """

    @jax.jit
    def weights_per_layer(params: Params, batch: Batch) -> list[jax.Array]:  # [B, T, N, S] each
        _, variables = model.apply(
            {"params": params}, batch, deterministic=True, mutable="intermediates"
        )
        blocks: Any = variables["intermediates"]["decoder"]
        names = sorted(blocks, key=lambda name: int(name.rpartition("_")[2]))
        return [blocks[name]["encoder_attention"]["weights"][0] for name in names]

    def attention_weights(params: Params, source: list[int], target: list[int]) -> np.ndarray:
        lengths = len(target), len(source)
        length = next(n for n in bucket_lengths(max(lengths)) if n >= max(lengths))
        sides = Ragged.from_lists([source]), Ragged.from_lists([target])
        batch = one_pair_per_row(*sides, np.array([0]), length)
        weights = np.stack(jax.device_get(weights_per_layer(params, batch)))[:, 0]
        return weights.transpose(0, 2, 1, 3)[:, :, : lengths[0], : lengths[1]]

    return attention_weights
