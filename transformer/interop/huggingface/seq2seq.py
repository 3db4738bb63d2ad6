"""Hugging Face's translation models: Marian (OPUS-MT), M2M100 and NLLB, and mBART-50.

What differs from our model is folded into the weights: the order of columns, and what a search may
not find. Tokens keep their ids. `write_marian` writes by the same tables.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer.config import Config, ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary, read_vocabulary
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.settings import (
    Setting,
    SettingsTable,
    is_count,
    read_settings,
    translation_config,
)
from transformer.interop.weights import folds
from transformer.interop.weights.files import TensorFiles, open_tensors
from transformer.interop.weights.name_table import Tensors, array_names, entries, read

ROUNDING = 0.005  # of sinusoids in bfloat16
SETTINGS = SettingsTable(
    {
        "d_model": Setting("d_model"),
        "encoder_ffn_dim": Setting("d_ff"),
        "decoder_ffn_dim": Setting("d_ff"),
        "encoder_attention_heads": Setting("num_heads"),
        "decoder_attention_heads": Setting("num_heads"),
        "encoder_layers": Setting("num_layers"),
        "decoder_layers": Setting("num_decoder_layers"),
        "max_position_embeddings": Setting("max_positions", 1024),
        "activation_function": Setting("activation", "gelu"),
        "dropout": Setting("dropout_rate", 0.1),
        "attention_dropout": Setting("attention_dropout_rate", 0.0),
        "scale_embedding": Setting("scale_embedding", False),
    },
    possible={"is_encoder_decoder": (True,), "quantization_config": (None,)},
)


class Family(NamedTuple):
    """What a model_type has.

    model: settings of `ModelConfig`. defaults: of theirs, where they are others than in `SETTINGS`.
    offset: rows of a table of positions before that of the first token.
    """

    model: Mapping[str, Any]
    defaults: Mapping[str, Any] = {}
    offset: int = 0


FAMILIES = {
    "marian": Family({"norm": "post", "positions": "sinusoidal"}),
    "m2m_100": Family(
        {"norm": "pre", "positions": "sinusoidal_fairseq"},
        {"activation_function": "relu", "scale_embedding": True},
    ),
    "mbart": Family({"norm": "pre", "positions": "learned", "embedding_norm": True}, offset=2),
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
SHARED, HEAD, LOGITS_BIAS = "model.shared.weight", "lm_head.weight", "final_logits_bias"
ENCODER, DECODER = (f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder"))
POSITION_TABLES = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
BUFFERS = [*POSITION_TABLES, *(f"{name}s" for name in POSITION_TABLES)]  # of sinusoids
NAMES = {
    "shared_embedding/table": SHARED,
    "source_embedding/table": ENCODER,
    "target_embedding/table": DECODER,
    "softmax/table": HEAD,
    **{f"{table}/bias": LOGITS_BIAS for table in SOFTMAX.values()},
    "source_positions/table": POSITION_TABLES[0],
    "target_positions/table": POSITION_TABLES[1],
    "source_norm": "model.encoder.layernorm_embedding",
    "target_norm": "model.decoder.layernorm_embedding",
    "layer": "model.@.layers.#.",
    "self_attention/query": "self_attn.q_proj",
    "self_attention/key": "self_attn.k_proj",
    "self_attention/value": "self_attn.v_proj",
    "self_attention/output": "self_attn.out_proj",
    "self_residual/LayerNorm_0": "self_attn_layer_norm",
    "encoder_attention/query": "encoder_attn.q_proj",
    "encoder_attention/key": "encoder_attn.k_proj",
    "encoder_attention/value": "encoder_attn.v_proj",
    "encoder_attention/output": "encoder_attn.out_proj",
    "encoder_residual/LayerNorm_0": "encoder_attn_layer_norm",
    "feed_forward/inner": "fc1",
    "feed_forward/outer": "fc2",
    "feed_forward_residual/LayerNorm_0": "final_layer_norm",
    "encoder/last_norm": "model.encoder.layer_norm",
    "decoder/last_norm": "model.decoder.layer_norm",
}
COPIES = {  # by model.embedding_sharing: where else a table may lie, as others of the same content
    "all": {SHARED: (ENCODER, DECODER, HEAD)},
    "target": {DECODER: (HEAD,)},
    "none": {ENCODER: (SHARED,), DECODER: (SHARED,)},
}


def read_seq2seq(
    folder: PathLike, source_language: str = "", target_language: str = ""
) -> PortableModel:
    """Reads a folder of Hugging Face with a model whose type is in `FAMILIES`.

    The languages are needed by the models of many languages, and named as these do. Raises
    ValueError for a folder that is damaged or incomplete, or that holds what we cannot compute.
    """
    folder = Path(folder)
    settings = _read_settings(folder)
    family = FAMILIES[settings["model_type"]]
    vocabulary = read_vocabulary(folder, settings, (source_language, target_language))
    tensors = open_tensors(folder)
    own_settings = {**SETTINGS.read({**family.defaults, **settings}), **family.model}
    config = translation_config(
        own_settings | {"norm_epsilon": 1e-5} | _positions(family, own_settings, tensors),
        vocabulary,
        is_tied=settings.get("tie_word_embeddings", True),
        is_shared=settings.get("share_encoder_decoder_embeddings", True),
        beam_size=settings.get("num_beams", 1),
        alpha=max(0.0, float(settings["length_penalty"])),
    )
    config.data.row_length = config.model.max_positions
    params = _read_params(family, settings, config.validate(), vocabulary, tensors)
    notes = [*vocabulary.notes, *_describe(settings, config, vocabulary.languages)]
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _read_settings(folder: Path) -> dict[str, Any]:
    """Returns what config.json says, and over it generation_config.json; refuses what we lack.

    "silenced": the ids that no search may find.
    """
    files = ["config.json", "generation_config.json"]
    given = [read_settings(folder, file) for file in files if (folder / file).is_file()]
    given = [pair for part in given for pair in part.items()]
    settings = {name: value for name, value in given if value is not None}
    end, silent = settings.get("eos_token_id"), settings.setdefault("bad_words_ids", [])
    settings["eos_token_id"] = end[0] if isinstance(end, list) and len(end) == 1 else end
    penalty = settings.setdefault("length_penalty", 1.0)
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
    return settings | {"silenced": [words[0] for words in silent if len(words) == 1]}


def _positions(family: Family, settings: Mapping[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Returns settings of the positions in a file, unless they are sinusoids that we compute."""
    tables = [tensors[name] for name in POSITION_TABLES if name in tensors]
    model = ModelConfig(**settings)
    for table in tables:
        if model.positions != "learned":
            sinusoids = folds.position_table(model, {}, "", len(table))
            own = table.astype(np.float32).take(folds.interleaved_columns(model.d_model), 1)
            if np.abs(own - sinusoids).max() <= ROUNDING:
                continue
        return {"positions": "learned", "max_positions": len(table) - family.offset}
    return {}


def _read_params(
    family: Family,
    settings: Mapping[str, Any],
    config: Config,
    vocabulary: Vocabulary,
    tensors: TensorFiles,
) -> FlatParams:
    """Returns the parameters with our order of columns."""
    model = config.model
    is_sinusoidal = model.positions != "learned"
    columns = folds.interleaved_columns(model.d_model)
    bias, target = f"{SOFTMAX[model.embedding_sharing]}/bias", vocabulary.tokenizers[1]
    silenced = settings["silenced"]
    if target.special.bos == target.special.pad:
        silenced = [*silenced, target.special.bos]  # whose row is the start's

    def change(name: str, array: np.ndarray) -> np.ndarray:
        if name.endswith("_positions/table"):
            return array[family.offset :]
        if name == bias:
            array = array.reshape(-1).copy()
            array[[word for word in silenced if word < len(array)]] = folds.NEVER
        return folds.permute_columns(name, array, columns) if is_sinusoidal else array

    ignored = [*_copies(model.embedding_sharing, tensors), *(BUFFERS if is_sinusoidal else ())]
    table = entries(array_names(config, vocabulary.tokenizers), NAMES)
    absent = () if LOGITS_BIAS in tensors else (LOGITS_BIAS,)  # M2M100
    return read(table, tensors, ignored=ignored, absent=absent, change=change)


def _describe(settings: Mapping[str, Any], config: Config, languages: tuple[str, str]) -> list[str]:
    """Returns what the user should know of the settings, a sentence each."""
    notes, unused = [], {name: idle for name, idle in UNUSED.items() if name in settings}
    if not all(languages):
        pair = f"{config.data.source_language} to {config.data.target_language}"
        notes.append(f"The folder does not name its languages; the run says {pair}.")
    listed = [f"{name}={settings[name]}" for name in unused if settings[name] not in unused[name]]
    if len(settings["silenced"]) < len(settings["bad_words_ids"]):
        listed.append("bad_words_ids of several pieces")
    if settings["length_penalty"] < 0:
        listed.append(f"length_penalty={settings['length_penalty']}")
    if listed:
        notes.append(
            f"Not used: {', '.join(listed)}; here a search is exact, and </s> is forced when a "
            f"translation has {config.decoding.max_extra_length} tokens more than its source."
        )
    return notes


def _copies(sharing: str, tensors: TensorFiles) -> list[str]:
    """Returns the names in `COPIES`; a table that is there by such a name alone gets its own.

    Raises ValueError if tables differ that should be one.
    """
    data, copies = tensors.data, []
    for first, others in COPIES[sharing].items():
        copies += others
        for other in others:
            if other in data:
                data.setdefault(first, data[other])
                if not np.array_equal(tensors[first], tensors[other]):
                    raise ValueError(f"By config.json {first} is {other}, but they differ.")
    return copies
