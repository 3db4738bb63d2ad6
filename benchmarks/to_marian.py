"""Converts our weights to a MarianMTModel of Hugging Face's transformers; needs torch, not JAX.

Marian is the paper's post-norm model, so the conversion is exact once three things are set to ours:
LayerNorm's epsilon, the table of positions (Marian has all sines before all cosines), and the
biases in attention, which are 0.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

PAD, BOS, EOS = range(3)
EPSILON = 1e-6


def make_marian(config: dict[str, Any], weights: dict[str, np.ndarray]) -> MarianMTModel:
    """Makes the model from weights {"encoder/layer_0/…": array, "positions": array}.

    config: the fields of our ModelConfig. Raises ValueError for what Marian does not have.
    """
    unlike = {"norm": "post", "embedding_sharing": "all", "positions": "sinusoidal"}
    if any(config[name] != value for name, value in unlike.items()):
        raise ValueError(f"Marian's model has {unlike}.")
    table = weights["shared_embedding/table"]
    model = MarianMTModel(make_config(config, len(table), len(weights["positions"]))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        copy(model.model.shared.weight, table)
        for name in ("encoder", "decoder"):
            stack = getattr(model.model, name)
            copy(stack.embed_positions.weight, weights["positions"])
            for i, layer in enumerate(stack.layers):
                copy_layer(layer, weights, f"{name}/layer_{i}")
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = EPSILON
    return model


def make_config(config: dict[str, Any], vocab_size: int, max_positions: int) -> MarianConfig:
    """Makes the MarianConfig of our sizes, ids and ReLU; its search keeps its defaults.

    But it forces no EOS at the last position, whose log-probability it would not count.
    """
    sizes = {"layers": "num_layers", "attention_heads": "num_heads", "ffn_dim": "d_ff"}
    sides = {
        f"{side}_{theirs}": config[ours]
        for side in ("encoder", "decoder")
        for theirs, ours in sizes.items()
    }
    return MarianConfig(
        **sides,
        d_model=config["d_model"],
        vocab_size=vocab_size,
        max_position_embeddings=max_positions,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )


def copy(parameter: torch.Tensor, array: np.ndarray) -> None:
    """Copies an array into a parameter of the same shape."""
    parameter.copy_(torch.from_numpy(array.copy()))


def copy_layer(layer: nn.Module, weights: dict[str, np.ndarray], name: str) -> None:
    """Copies a block of ours, whose weights start with `name`, into a layer of theirs."""
    attentions = {"self_attention": "self_attn"}
    norms = {"self_residual": "self_attn_layer_norm", "feed_forward_residual": "final_layer_norm"}
    if hasattr(layer, "encoder_attn"):
        attentions["encoder_attention"] = "encoder_attn"
        norms["encoder_residual"] = "encoder_attn_layer_norm"
    for ours, theirs in attentions.items():
        projections = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
        for kernel, linear in projections.items():
            weight = getattr(getattr(layer, theirs), linear).weight
            copy(weight, weights[f"{name}/{ours}/{kernel}/kernel"].T)
    for ours, theirs in norms.items():
        norm = getattr(layer, theirs)
        copy(norm.weight, weights[f"{name}/{ours}/LayerNorm_0/scale"])
        copy(norm.bias, weights[f"{name}/{ours}/LayerNorm_0/bias"])
    for ours, linear in {"inner": layer.fc1, "outer": layer.fc2}.items():
        copy(linear.weight, weights[f"{name}/feed_forward/{ours}/kernel"].T)
        copy(linear.bias, weights[f"{name}/feed_forward/{ours}/bias"])
