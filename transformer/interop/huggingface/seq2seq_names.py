"""Names of the arrays of Marian, M2M100 and mBART in files of Hugging Face, beside ours."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.portable_model import SOFTMAX
from transformer.interop.weights.name_table import Entry, Tensors, layer_norm, layers

TABLES = {  # where each of our tables may lie; copies in other places are left out of some files
    "all": {"shared_embedding": ("model.shared", "{encoder}", "{decoder}", "lm_head")},
    "target": {"source_embedding": ("{encoder}",), "target_embedding": ("{decoder}", "lm_head")},
    "none": {
        "source_embedding": ("{encoder}", "model.shared"),
        "target_embedding": ("{decoder}", "model.shared"),
        "softmax": ("lm_head",),
    },
}
POSITION_TABLES = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
FAIRSEQ_BUFFERS = [name + "s" for name in POSITION_TABLES]
ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
LAYER = {f"self_attention/{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()}
LAYER |= {
    "self_residual/LayerNorm_0": "self_attn_layer_norm",
    "feed_forward/inner": "fc1",
    "feed_forward/outer": "fc2",
    "feed_forward_residual/LayerNorm_0": "final_layer_norm",
}
CROSS = {
    f"encoder_attention/{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()
}
CROSS |= {"encoder_residual/LayerNorm_0": "encoder_attn_layer_norm"}


def entries(model: ModelConfig) -> list[Entry]:
    """Returns the table of names of a model with such settings."""
    found = [
        Entry(f"{ours}/table", f"{_expanded(names[0])}.weight")
        for ours, names in TABLES[model.embedding_sharing].items()
    ]
    if model.output_bias:
        found.append(Entry(f"{SOFTMAX[model.embedding_sharing]}/bias", "final_logits_bias"))
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        is_decoder = stack == "decoder"
        depth = model.depth(is_decoder=is_decoder)
        names = LAYER | CROSS if is_decoder else LAYER
        found += layers(depth, f"{stack}/layer_", f"model.{stack}.layers.", names)
        if model.positions == "learned":
            found.append(Entry(f"{side}_positions/table", f"model.{stack}.embed_positions.weight"))
        if model.embedding_norm:
            found += layer_norm(f"{side}_norm", f"model.{stack}.layernorm_embedding")
        if model.norm == "pre":
            found += layer_norm(f"{stack}/last_norm", f"model.{stack}.layer_norm")
    return found


def _expanded(name: str) -> str:
    return name.format(encoder="model.encoder.embed_tokens", decoder="model.decoder.embed_tokens")


def as_stored(
    table: Sequence[Entry], sharing: str, tensors: Tensors
) -> tuple[list[Entry], list[str]]:
    """Returns (the table with the name of the copy that a file has, the names of all copies).

    Raises ValueError if what should be copies are different tables.
    """
    names_there: dict[str, str] = {}
    copies: list[str] = []
    for ours, places in TABLES[sharing].items():
        weights = [f"{_expanded(name)}.weight" for name in places]
        first, *others = [name for name in weights if name in tensors] or weights[:1]
        names_there[f"{ours}/table"] = first
        copies += weights
        for other in others:
            if not np.array_equal(tensors[first], tensors[other]):
                raise ValueError(
                    f"By config.json {first} and {other} are one table, but they differ; restore "
                    f"share_encoder_decoder_embeddings and tie_word_embeddings."
                )
    return [
        replace(entry, theirs=names_there.get(entry.ours, entry.theirs)) for entry in table
    ], copies
