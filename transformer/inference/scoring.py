"""Computes what a translation model makes of given sentence pairs, in one pass each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from transformer.checkpoint.train_state import Params
from transformer.data.rows.batch import Batch

ModelFn = Callable[[nn.Module, Params, Batch], Any]  # -> [B, S or T, …]


class PerToken(NamedTuple):
    """A value per token of several texts; rows of shorter texts end in zeros.

    values: [B, L, …], L the tokens of the longest text, EOS included.
    mask: [B, L], True on tokens and False behind them.
    pieces: the tokens of each text as strings, EOS included.
    """

    values: np.ndarray
    mask: np.ndarray
    pieces: list[list[str]]


@dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of one sentence pair, of every layer and head.

    source_pieces, target_pieces: the S and T tokens as strings, EOS included.
    encoder: [layers, N, S, S], row s from source token s to the source.
    decoder: [layers, N, T, T], row t from what predicts target token t to the tokens before it;
        column 0 is BOS and column t the target token t - 1.
    encoder_decoder: [layers, N, T, S], row t from what predicts target token t to the source.
    """

    source_pieces: list[str]
    target_pieces: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    encoder_decoder: np.ndarray


# ---- of (model, params, a batch of one pair per row), to be compiled


def encoded(model: nn.Module, params: Params, batch: Batch) -> Any:
    """Returns the encoded sources, [B, S, D]."""
    inputs = batch.inputs, batch.input_positions, batch.input_segments
    return model.apply({"params": params}, *inputs, deterministic=True, method="encode")


def logits(model: nn.Module, params: Params, batch: Batch) -> Any:
    """Returns the logits, [B, T, V]; of a classifier [B, T, classes]."""
    return model.apply({"params": params}, batch, deterministic=True)


def log_probs(model: nn.Module, params: Params, batch: Batch) -> jax.Array:
    """Returns the log-probability of each target token, [B, T]."""
    every = jax.nn.log_softmax(logits(model, params, batch))
    return jnp.take_along_axis(every, batch.targets[..., None], axis=-1)[..., 0]


def sown_weights(model: nn.Module, params: Params, batch: Batch) -> Any:
    """Returns what each attention sows, {stack: {layer: {sub-layer: …}}}."""
    _, variables = model.apply(
        {"params": params}, batch, deterministic=True, mutable="intermediates"
    )
    stacks = variables["intermediates"]
    return stacks.get("models_0", stacks)  # of an ensemble, those of its first model


def to_source(model: nn.Module, params: Params, batch: Batch) -> jax.Array:
    """Returns the attention to the source, the mean over the heads: [B, T, layers, S]."""
    weights = _by_layer(sown_weights(model, params, batch)["decoder"], "encoder_attention")
    return jnp.stack(weights, axis=2).mean(3)


FUNCTIONS: tuple[ModelFn, ...] = encoded, logits, log_probs, sown_weights, to_source


def _by_layer(blocks: dict[str, Any], sublayer: str) -> list[Any]:
    """Returns the weights that each block of a stack sowed, [B, T, N, S]."""
    names = sorted(blocks, key=lambda name: int(name.rpartition("_")[2]))
    return [blocks[name][sublayer]["weights"][0] for name in names]


def weights_of(blocks: dict[str, Any], sublayer: str) -> np.ndarray:
    """Returns the attention weights that the blocks of a stack sowed, as [layers, N, T, S].

    blocks: the collection "intermediates" of the stack, with [B=1, T, N, S] for each block.
    """
    weights = np.stack([weights[0] for weights in _by_layer(blocks, sublayer)])
    return weights.transpose(0, 2, 1, 3)
