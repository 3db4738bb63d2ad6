"""GPT-2's Hugging Face folders: read as causal language models, and written."""

from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface import one_stack
from transformer.interop.huggingface.tokens import read_tokenizer
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import Setting, SettingsTable, read_settings
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import Style
from transformer.interop.writing import check_holds, write_files

SETTINGS = SettingsTable(
    {
        "n_embd": Setting("d_model"),
        "n_layer": Setting("num_layers"),
        "n_head": Setting("num_heads"),
        "n_inner": Setting("d_ff", 0),  # four times the width
        "n_positions": Setting("max_positions"),
        "activation_function": Setting("activation", "gelu_new"),
        "layer_norm_epsilon": Setting("norm_epsilon", 1e-5),
        "resid_pdrop": Setting("dropout_rate", 0.1),
        "attn_pdrop": Setting("attention_dropout_rate", 0.1),
    },
    possible={
        "model_type": ("gpt2",),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
)
WORDS = "transformer.wte.weight"
SOFTMAX = "lm_head.weight"
FAMILY = one_stack.Family(
    SETTINGS,
    {
        one_stack.TABLE: WORDS,
        one_stack.POSITIONS: "transformer.wpe.weight",
        "layer": "transformer.h.#.",
        "self_attention/query": "attn.c_attn",  # query, key and value side by side
        "self_attention/key": "attn.c_attn",
        "self_attention/value": "attn.c_attn",
        "self_attention/output": "attn.c_proj",
        "self_residual/LayerNorm_0": "ln_1",
        "feed_forward/inner": "mlp.c_fc",
        "feed_forward/outer": "mlp.c_proj",
        "feed_forward_residual/LayerNorm_0": "ln_2",
        "decoder/last_norm": "transformer.ln_f",
    },
    prefix="transformer.",  # not in a GPT2Model
    copies={SOFTMAX: one_stack.TABLE},
    style=Style(transposed=False),  # their Conv1D holds [in, out] as our kernels
)
MASKS = ("attn.bias", "attn.masked_bias")  # of a layer in files of before 2023: causal masks


def read(folder: PathLike) -> PortableModel:
    """Reads a GPT2LMHeadModel or GPT2Model; raises ValueError for any other model."""
    settings = SETTINGS.read(read_settings(folder))
    settings["d_ff"] = settings["d_ff"] or 4 * settings["d_model"]
    tensors, tokenizer = open_tensors(folder), read_tokenizer(folder, "gpt2")
    config = one_stack.stack_config("language_model", **settings, norm="pre")
    layers = range(config.model.num_layers)
    masks = [f"transformer.h.{i}.{mask}" for i in layers for mask in MASKS]
    params, notes = one_stack.read_params(FAMILY, config, tokenizer, Labels([]), tensors, masks)
    return PortableModel(config, params, (tokenizer, tokenizer), notes=notes)


def write(model: PortableModel, folder: PathLike) -> list[str]:
    """Writes a folder of GPT2LMHeadModel; returns what to know.

    Raises ValueError, naming each, for settings of the run that GPT-2 cannot have.
    """
    config, tokenizer, kind = model.config, model.tokenizers[0], "GPT2LMHeadModel"
    needed = {"model.norm": "pre", "model.embedding_norm": False, "model.output_bias": False}
    check_holds(kind, config, task="language_model", needed=needed)
    eos, silent = tokenizer.special.eos, tokenizer.special.silent
    ends = {"bos_token_id": eos, "eos_token_id": eos}
    embd_pdrop = config.model.dropout_rate
    settings = {"architectures": [kind], "model_type": "gpt2", "embd_pdrop": embd_pdrop, **ends}
    is_own = not tokenizer.line_breaks_are_text
    notes = [f"A text begins with the id {eos}, which also ends each line."] if is_own else []
    notes = one_stack.write_folder(FAMILY, folder, model, settings, notes)
    search = ends | ({"suppress_tokens": silent} if silent else {})
    write_files(folder, {"generation_config.json": search})
    return notes
