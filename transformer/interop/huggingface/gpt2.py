"""GPT-2's Hugging Face folders: read as causal language models, and written."""

from transformer.files.storage import PathLike
from transformer.interop.huggingface import one_stack
from transformer.interop.huggingface.tokens import read_gpt2_tokenizer
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import SettingsTable, read_settings
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import Entry, Style, layers, modules
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
# Their Conv1D holds [in, out] as our kernels, and query, key and value side by side.
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
NAMES = {
    **layers("decoder/layer_#/", "transformer.h.#.", LAYER),
    "decoder/last_norm": "transformer.ln_f",
}
WORDS, PLACES = "transformer.wte.weight", "transformer.wpe.weight"
SOFTMAX = "lm_head.weight"
MASKS = ("attn.bias", "attn.masked_bias")  # of a layer in files of before 2023: causal masks


def read(folder: PathLike) -> PortableModel:
    """Reads a GPT2LMHeadModel or GPT2Model; raises ValueError for any other model."""
    model_settings = SETTINGS.read(read_settings(folder))
    model_settings["d_ff"] = model_settings["d_ff"] or 4 * model_settings["d_model"]
    tensors = open_tensors(folder)
    tokenizer = read_gpt2_tokenizer(folder)
    config = one_stack.stack_config("language_model", **model_settings, norm="pre")
    num_layers = config.model.num_layers
    params, notes = one_stack.read_params(
        config.model,
        entries(num_layers),
        tensors,
        tokenizer.vocab_size,
        prefix="transformer.",
        softmax=SOFTMAX,
        ignored=[f"transformer.h.{i}.{mask}" for i in range(num_layers) for mask in MASKS],
    )
    return PortableModel(config, params, (tokenizer, tokenizer), notes=notes)


def entries(num_layers: int) -> list[Entry]:
    """Returns the table of names; GPT2Model has them without "transformer."."""
    table = [Entry(one_stack.TABLE, WORDS), Entry(one_stack.POSITIONS, PLACES)]
    return table + modules(NAMES, Style(transposed=False), num_layers)


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of GPT2LMHeadModel; returns what to know.

    Raises ValueError, naming each, for settings of the run that GPT-2 cannot have.
    """
    config, tokenizer, notes = model.config, model.tokenizers[0], []
    special = tokenizer.special
    needed = {"model.norm": "pre", "model.embedding_norm": False, "model.output_bias": False}
    way_out = "use the format safetensors"
    check_holds("GPT2LMHeadModel", config, way_out, task="language_model", needed=needed)
    tensors = one_stack.write_params(
        config, model.params, entries(config.model.num_layers), SOFTMAX
    )
    if not tokenizer.line_breaks_are_text:
        notes.append(f"A text begins with the id {special.eos}, which also ends each line.")
    ends = {"bos_token_id": special.eos, "eos_token_id": special.eos}
    settings = SETTINGS.write(config.model) | {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_positions": len(tensors[PLACES]),
        "vocab_size": len(tensors[WORDS]),
        "tie_word_embeddings": SOFTMAX not in tensors,
        "embd_pdrop": config.model.dropout_rate,
        **ends,
    }
    notes = one_stack.write_folder(folder, model, settings, tensors, notes)
    silent = {"suppress_tokens": special.silent} if special.silent else {}
    write_files(folder, {"generation_config.json": ends | silent})
    return notes
