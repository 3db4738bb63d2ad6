"""GPT-2's Hugging Face folders: read as causal language models, and written."""

import json

import numpy as np
from etils import epath

from transformer.config import Config
from transformer.files.storage import PathLike, write_atomically
from transformer.interop.huggingface.one_stack import (
    POSITIONS,
    complete,
    stack_config,
    tie,
    untie,
    write_folder,
)
from transformer.interop.huggingface.tokens import (
    TOKENS,
    fit_rows,
    read_gpt2_tokenizer,
)
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.settings import (
    SettingsTable,
    check_holds,
    read_settings,
)
from transformer.interop.weights import name_table
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import Entry, layer_norm, layers

SETTINGS = SettingsTable(
    names={
        "n_embd": "d_model",
        "n_layer": "num_layers",
        "n_head": "num_heads",
        "n_inner": "d_ff",
        "n_positions": "max_positions",
        "activation_function": "activation",
        "layer_norm_epsilon": "norm_epsilon",
        "resid_pdrop": "dropout_rate",
        "attn_pdrop": "attention_dropout_rate",
    },
    defaults={
        "n_inner": None,  # four times the width
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "resid_pdrop": 0.1,
        "attn_pdrop": 0.1,
    },
    possible={
        "model_type": ("gpt2",),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
)
LAYER = {
    "self_attention/query": "attn.c_attn",
    "self_attention/key": "attn.c_attn",
    "self_attention/value": "attn.c_attn",
    "self_attention/output": "attn.c_proj",
    "self_residual/LayerNorm_0": "ln_1",
    "feed_forward/inner": "mlp.c_fc",
    "feed_forward/outer": "mlp.c_proj",
    "feed_forward_residual/LayerNorm_0": "ln_2",
}
SOFTMAX, LAST_NORM = "lm_head.weight", "decoder/last_norm"
FOLDED = (
    "The output bias is part of lm_head.weight, which is therefore another table than that of the "
    "embeddings: transformer-import cannot take this folder back."
)
MASKS = ("attn.bias", "attn.masked_bias")  # of a layer in files of before 2023: causal masks


def read(folder: PathLike) -> PortableModel:
    """Reads a GPT2LMHeadModel or GPT2Model; raises ValueError for any other model."""
    model_settings = SETTINGS.read(read_settings(folder))
    model_settings["d_ff"] = model_settings["d_ff"] or 4 * model_settings["d_model"]
    tensors = open_tensors(folder)
    tokenizer = read_gpt2_tokenizer(folder)
    config = stack_config("language_model", **model_settings, norm="pre").validate()
    params, notes = fit_rows(_read_params(config, tensors), tokenizer.vocab_size)
    return PortableModel(config, params, (tokenizer, tokenizer), notes=notes)


def entries(num_layers: int, prefix: str = "transformer.") -> list[Entry]:
    """Returns the table of names; prefix: of the tensors, which GPT2Model has not.

    Their Conv1D holds [in, out] as our kernels, and query, key and value side by side.
    """
    return [
        Entry(TOKENS[0], f"{prefix}wte.weight"),
        Entry(POSITIONS, f"{prefix}wpe.weight"),
        *layers(num_layers, "decoder/layer_", f"{prefix}h.#.", LAYER, transposed=False),
        *layer_norm(LAST_NORM, f"{prefix}ln_f"),
    ]


def _read_params(config: Config, tensors: name_table.Tensors) -> FlatParams:
    """Returns our parameters of their tensors, with their rows of tokens."""
    prefix = name_table.prefix_in(tensors, "transformer.")
    num_layers = config.model.num_layers
    ignored = [f"{prefix}h.{i}.{mask}" for i in range(num_layers) for mask in MASKS]
    params = name_table.read(entries(num_layers, prefix), tensors, ignored=[SOFTMAX, *ignored])
    if SOFTMAX in tensors:
        tie(config.model, params, tensors[SOFTMAX], SOFTMAX)
    return params


def fold_output_bias(
    table: np.ndarray, bias: np.ndarray, scale: np.ndarray, shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns (table [V, D], shift [D]) that give the same scores without the bias [V].

    The scores are table · (scale ⊙ z + shift) + bias with z normalised: its mean is 0. So what is
    added to a row as a / scale adds the constant a · Σ shift / scale. First `shift` gets a multiple
    of `scale`, so that this sum is not near 0, and a corrects what that adds.

    Raises ValueError if an element of `scale` is 0.
    """
    if not scale.all():
        raise ValueError("A scale of the last normalisation is 0: GPT-2 cannot hold output_bias.")
    table, scale, shift = (array.astype(np.float64) for array in (table, scale, shift))
    total = (shift / scale).sum()
    step = np.copysign(len(scale) ** -0.5, total)
    a = (bias - step * (table @ scale)) / (total + step * len(scale))
    folded = table + np.outer(a, 1 / scale), shift + step * scale
    return folded[0].astype(np.float32), folded[1].astype(np.float32)


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of GPT2LMHeadModel; returns what to know.

    Raises ValueError, naming each, for settings of the run that GPT-2 cannot have.
    """
    config, tokenizer = model.config, model.tokenizers[0]
    special = tokenizer.special
    needed = {"model.norm": "pre", "model.embedding_norm": False}
    check_holds("GPT2LMHeadModel", "language_model", config, needed)
    tensors, notes = _tensors(config, model.params)
    if not tokenizer.line_breaks_are_text:
        notes.append(f"A text begins with the id {special.eos}, which also ends each line.")
    settings = SETTINGS.write(config.model) | {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_positions": len(tensors["transformer.wpe.weight"]),
        "vocab_size": len(tensors["transformer.wte.weight"]),
        "tie_word_embeddings": SOFTMAX not in tensors,
        "embd_pdrop": config.model.dropout_rate,
        "bos_token_id": special.eos,
        "eos_token_id": special.eos,
    }
    notes = write_folder(folder, model, settings, tensors, notes)
    generation = {name: settings[name] for name in ("bos_token_id", "eos_token_id")}
    silent = {"suppress_tokens": special.silent} if special.silent else {}
    path = epath.Path(folder) / "generation_config.json"
    write_atomically(path, json.dumps(generation | silent, indent=2) + "\n")
    return notes


def _tensors(config: Config, params: FlatParams) -> tuple[dict[str, np.ndarray], list[str]]:
    """Returns (their tensors, notes); the softmax has a table of its own only where it must."""
    table = entries(config.model.num_layers)
    params = complete(config, params, table)
    bias = params.pop(TOKENS[1], np.zeros(1, np.float32))
    params, softmax = untie(config.model, params)
    is_folded = bool(np.ptp(bias))  # a bias that all ids share changes no probability
    if is_folded:
        softmax = params[TOKENS[0]] if softmax is None else softmax
        norm = params[f"{LAST_NORM}/scale"], params[f"{LAST_NORM}/bias"]
        softmax, params[f"{LAST_NORM}/bias"] = fold_output_bias(softmax, bias, *norm)
    tensors = name_table.write(table, params)
    return tensors | ({} if softmax is None else {SOFTMAX: softmax}), [FOLDED] * is_folded
