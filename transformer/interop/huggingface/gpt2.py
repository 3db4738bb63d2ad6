"""GPT-2's Hugging Face folders: read as causal language models, and written."""

import numpy as np

from transformer.config import Config
from transformer.files.storage import PathLike
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
    read_settings,
)
from transformer.interop.weights import name_table
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import Entry, Style, layer_norm, layers
from transformer.interop.writing import check_holds, write_files

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
        *layers(num_layers, "decoder/layer_", f"{prefix}h.#.", LAYER, Style(transposed=False)),
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


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of GPT2LMHeadModel; returns what to know.

    Raises ValueError, naming each, for settings of the run that GPT-2 cannot have.
    """
    config, tokenizer = model.config, model.tokenizers[0]
    special = tokenizer.special
    needed = {"model.norm": "pre", "model.embedding_norm": False, "model.output_bias": False}
    way_out = "use the format safetensors"
    check_holds("GPT2LMHeadModel", config, way_out, task="language_model", needed=needed)
    tensors, notes = _tensors(config, model.params), []
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
    write_files(folder, {"generation_config.json": generation | silent})
    return notes


def _tensors(config: Config, params: FlatParams) -> dict[str, np.ndarray]:
    """Returns their tensors; the softmax has a table of its own only where it must."""
    table = entries(config.model.num_layers)
    params = complete(config, params, table)
    params, softmax = untie(config.model, params)
    return name_table.write(table, params) | ({} if softmax is None else {SOFTMAX: softmax})
