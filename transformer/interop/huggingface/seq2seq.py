"""Reads Hugging Face's translation models: Marian (OPUS-MT), M2M100 and NLLB, and mBART-50.

What differs from our model is folded into the weights: the order of columns, and what a search may
not find. Tokens keep their ids.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary, read_vocabulary
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.settings import SettingsTable, is_count, name_languages, read_settings
from transformer.interop.weights import folds
from transformer.interop.weights.files import TensorFiles, open_tensors
from transformer.interop.weights.name_table import Entry, Tensors, read, translation_stacks

OFFSET = 2  # rows of mBART's position table before that of the first token
ROUNDING = 0.005  # of sinusoids in bfloat16
NAMES = {
    "d_model": "d_model",
    "encoder_ffn_dim": "d_ff",
    "encoder_attention_heads": "num_heads",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "max_position_embeddings": "max_positions",
    "activation_function": "activation",
    "dropout": "dropout_rate",
    "attention_dropout": "attention_dropout_rate",
    "scale_embedding": "scale_embedding",
}
DEFAULTS = {"max_position_embeddings": 1024, "dropout": 0.1, "attention_dropout": 0.0}
# By model_type: settings of `ModelConfig`, and defaults of theirs.
FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "marian": (
        {"norm": "post", "positions": "sinusoidal"},
        {"activation_function": "gelu", "scale_embedding": False},
    ),
    "m2m_100": (
        {"norm": "pre", "positions": "sinusoidal_fairseq"},
        {"activation_function": "relu", "scale_embedding": True},
    ),
    "mbart": (
        {"norm": "pre", "positions": "learned", "embedding_norm": True},
        {"activation_function": "gelu", "scale_embedding": False},
    ),
}
IDS = ("pad_token_id", "decoder_start_token_id", "eos_token_id")
UNUSED = {  # settings of a search that ours does not have, and what they are where they do nothing
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "repetition_penalty": (0, 1.0),
    "num_beam_groups": (0, 1),
    "do_sample": (False,),
    "min_length": (0,),
    "max_length": (),
    "max_new_tokens": (),
    "early_stopping": (False,),
}
SHARED, HEAD = "model.shared.weight", "lm_head.weight"
ENCODER, DECODER = (f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder"))
TABLES = {  # where each of our tables may lie; copies in other places are left out of some files
    "all": {"shared_embedding/table": (SHARED, ENCODER, DECODER, HEAD)},
    "target": {"source_embedding/table": (ENCODER,), "target_embedding/table": (DECODER, HEAD)},
    "none": {
        "source_embedding/table": (ENCODER, SHARED),
        "target_embedding/table": (DECODER, SHARED),
        "softmax/table": (HEAD,),
    },
}
POSITION_TABLES = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
BUFFERS = [*POSITION_TABLES, *(f"{name}s" for name in POSITION_TABLES)]  # of sinusoids
ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
LAYER = {
    **{f"self_attention/{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "self_residual/LayerNorm_0": "self_attn_layer_norm",
    **{f"encoder_attention/{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "encoder_residual/LayerNorm_0": "encoder_attn_layer_norm",
    "feed_forward/inner": "fc1",
    "feed_forward/outer": "fc2",
    "feed_forward_residual/LayerNorm_0": "final_layer_norm",
}


def read_seq2seq(
    folder: PathLike, source_language: str = "", target_language: str = ""
) -> PortableModel:
    """Reads a folder of Hugging Face with a model of type marian, m2m_100 or mbart.

    The languages are needed by the models of many languages, and named as these do. Raises
    ValueError for a folder that is damaged or incomplete, or that holds what we cannot compute.
    """
    folder = epath.Path(folder)
    settings = read_seq2seq_settings(folder)
    vocabulary = read_vocabulary(folder, settings, source_language, target_language)
    tensors = open_tensors(folder)
    config = config_of(settings, vocabulary.languages)
    _read_positions(settings["model_type"], config.model, tensors)
    params = _read_params(settings, config.validate().model, vocabulary, tensors)
    notes = [*vocabulary.notes, *describe_settings(settings, config, vocabulary.languages)]
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _read_positions(kind: str, model: ModelConfig, tensors: Tensors) -> None:
    """Adapts `model` to the positions that a file holds: learned, or sinusoids that it computes."""
    tables = [tensors[name] for name in POSITION_TABLES if name in tensors]
    if kind == "mbart":
        model.max_positions = min(map(len, tables), default=0) - OFFSET
        return
    for table in tables:
        sinusoids = folds.position_table(model, {}, "", len(table))
        own = table.astype(np.float32).take(folds.interleaved_columns(model.d_model), 1)
        if np.abs(own - sinusoids).max() > ROUNDING:
            model.positions, model.max_positions = "learned", len(table)
            return


def _read_params(
    settings: Mapping[str, Any], model: ModelConfig, vocabulary: Vocabulary, tensors: TensorFiles
) -> FlatParams:
    """Returns the parameters with our order of columns."""
    is_sinusoidal = model.positions != "learned"
    columns = folds.interleaved_columns(model.d_model)
    bias, target = f"{SOFTMAX[model.embedding_sharing]}/bias", vocabulary.tokenizers[1]
    silenced = [word for word in silenced_words(settings) if word < target.vocab_size]
    if target.special.bos == target.special.pad:
        silenced.append(target.special.bos)  # whose row is the start's

    def change(name: str, array: np.ndarray) -> np.ndarray:
        if name.endswith("_positions/table"):
            return array[OFFSET:] if settings["model_type"] == "mbart" else array
        array = array.reshape(-1) if name == bias else array
        folds.check_rows(name, array, vocabulary.tokenizers)
        if name == bias:
            array = array.copy()
            array[silenced] = folds.NEVER
        return folds.permute_columns(name, array, columns) if is_sinusoidal else array

    _name_tables(model.embedding_sharing, tensors)
    table = entries(model)
    if "final_logits_bias" not in tensors:  # M2M100
        table = [entry for entry in table if entry.ours != bias]
    params = read(table, tensors, ignored=BUFFERS if is_sinusoidal else (), change=change)
    return {bias: change(bias, np.zeros(target.vocab_size, np.float32))} | params


def read_seq2seq_settings(folder: epath.Path) -> dict[str, Any]:
    """Returns what config.json says, and over it generation_config.json; refuses what we lack."""
    given = [*read_settings(folder).items()]
    if (folder / "generation_config.json").is_file():
        given += read_settings(folder, "generation_config.json").items()
    settings = {name: value for name, value in given if value is not None}
    end = settings.get("eos_token_id")
    settings["eos_token_id"] = end[0] if isinstance(end, list) and len(end) == 1 else end
    penalty, silent = settings.get("length_penalty", 1.0), settings.get("bad_words_ids", [])
    lacking = [name for name in IDS if type(settings.get(name)) is not int]
    if not is_count(settings.get("vocab_size")):
        lacking.append("vocab_size")
    if lacking:
        raise ValueError(f"{folder}/config.json lacks the number {', '.join(lacking)}.")
    if type(penalty) not in (int, float):
        raise ValueError(f"length_penalty must be a number, not {penalty!r}.")
    known = range(settings.get("decoder_vocab_size", settings["vocab_size"]))
    lists = silent if isinstance(silent, list) else [silent]
    if any(not isinstance(ids, list) or any(i not in known for i in ids) for ids in lists):
        raise ValueError(f"bad_words_ids must list ids from 0 to {known[-1]:,}, not {silent!r}.")
    return settings


def config_of(settings: Mapping[str, Any], languages: tuple[str, str]) -> Config:
    """Returns the configuration of a run with this model; languages: "" where unknown."""
    family, defaults = FAMILIES[settings["model_type"]]
    is_shared = settings.get("share_encoder_decoder_embeddings", True)
    is_tied = settings.get("tie_word_embeddings", True)
    possible = {
        "decoder_ffn_dim": (settings.get("encoder_ffn_dim"),),
        "decoder_attention_heads": (settings.get("encoder_attention_heads"),),
        "is_encoder_decoder": (True,),
        "quantization_config": (None,),
    }
    if is_shared:
        possible["decoder_vocab_size"] = (settings["vocab_size"],)
    table = SettingsTable(NAMES, DEFAULTS | defaults, possible)
    model = ModelConfig(
        **table.read(settings),
        **family,
        norm_epsilon=1e-5,
        projection_bias=True,
        output_bias=True,
        embedding_sharing="none" if not is_tied else "all" if is_shared else "target",
    )
    config = Config(model=model)
    config.data.row_length = model.max_positions
    config.tokenizer.kind, config.tokenizer.shared = "imported", is_shared
    name_languages(config, languages)
    decoding = config.decoding
    decoding.beam_size, decoding.length_penalty = settings.get("num_beams", 1), "power"
    decoding.alpha = max(0.0, float(settings.get("length_penalty", 1.0)))
    return config


def describe_settings(
    settings: Mapping[str, Any], config: Config, languages: tuple[str, str]
) -> list[str]:
    """Returns what the user should know of the settings, a sentence each."""
    notes, unused = [], {name: idle for name, idle in UNUSED.items() if name in settings}
    if not all(languages):
        pair = f"{config.data.source_language} to {config.data.target_language}"
        notes.append(f"The folder does not name its languages; the run says {pair}.")
    listed = [f"{name}={settings[name]}" for name in unused if settings[name] not in unused[name]]
    if len(silenced_words(settings)) < len(settings.get("bad_words_ids", [])):
        listed.append("bad_words_ids of several pieces")
    if settings.get("length_penalty", 1.0) < 0:
        listed.append(f"length_penalty={settings['length_penalty']}")
    if listed:
        notes.append(
            f"Not used: {', '.join(listed)}; here a search is exact, and </s> is forced when a "
            f"translation has {config.decoding.max_extra_length} tokens more than its source."
        )
    return notes


def silenced_words(settings: Mapping[str, Any]) -> list[int]:
    """Returns their ids that no search may find."""
    return [words[0] for words in settings.get("bad_words_ids", []) if len(words) == 1]


def entries(model: ModelConfig) -> list[Entry]:
    """Returns the table of names of a model with such settings."""
    tables = TABLES[model.embedding_sharing]
    table = [Entry(ours, places[0]) for ours, places in tables.items()]
    if model.output_bias:
        table.append(Entry(f"{SOFTMAX[model.embedding_sharing]}/bias", "final_logits_bias"))
    if model.positions == "learned":
        sides = "source_positions/table", "target_positions/table"
        table += map(Entry, sides, POSITION_TABLES)
    return table + translation_stacks(
        model, "model.@.layers.#.", LAYER, "model.@.layernorm_embedding", "model.@.layer_norm"
    )


def _name_tables(sharing: str, tensors: TensorFiles) -> None:
    """Gives each table its first name in `TABLES` without copies; ValueError if they differ."""
    tables = {}
    for places in TABLES[sharing].values():
        names = [name for name in places if name in tensors]
        for other in names[1:]:
            if not np.array_equal(tensors[names[0]], tensors[other]):
                raise ValueError(f"By config.json {names[0]} is {other}, but they differ.")
        if names:
            tables[places[0]] = tensors.data[names[0]]
    for name in (name for places in TABLES[sharing].values() for name in places):
        tensors.data.pop(name, None)
    tensors.data |= tables
