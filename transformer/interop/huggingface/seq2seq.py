"""Reads Hugging Face's translation models: Marian (OPUS-MT), M2M100 and NLLB, and mBART-50.

What differs from our model is folded into the weights: the order of rows and columns, rows that no
token has, and the vector that a decoder starts with.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from transformer.config import ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_names import (
    FAIRSEQ_BUFFERS,
    POSITION_TABLES,
    as_stored,
    entries,
)
from transformer.interop.huggingface.seq2seq_settings import (
    config_of,
    describe_settings,
    read_seq2seq_settings,
    silenced_words,
)
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary, read_vocabulary
from transformer.interop.portable_model import SOFTMAX, TARGET, FlatParams, PortableModel
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.folds import (
    NEVER,
    interleaved_columns,
    permute_array,
    reorder_vocabulary,
)
from transformer.interop.weights.name_table import Tensors, read
from transformer.interop.weights.positions import sinusoid_table
from transformer.special_tokens import BOS, EOS, PAD

OFFSET = 2  # rows of mBART's position table before that of the first token
ROUNDING = 0.005  # of sinusoids in bfloat16


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
    start = _read_positions(settings["model_type"], config.model, tensors)
    params = _read_params(settings, config.validate().model, vocabulary, tensors)
    if start is not None:
        scale = config.model.d_model**0.5 if config.model.scale_embedding else 1.0
        name = TARGET[config.model.embedding_sharing]
        params[f"{name}/table"][BOS] += start / scale
    notes = [*vocabulary.notes, *describe_settings(settings, config, vocabulary.languages)]
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _read_positions(kind: str, model: ModelConfig, tensors: Tensors) -> np.ndarray | None:
    """Adapts `model` to the positions that a file holds.

    Returns what our start has more than their first vector, [D] in our order of columns, where a
    file of Marian says by its first position with what vector its decoder starts; else None.
    """
    tables = {name: tensors[name] for name in POSITION_TABLES if name in tensors}
    if kind == "mbart":
        model.max_positions = min(len(table) for table in tables.values()) - OFFSET
        return None
    start = None
    for name, table in tables.items():
        columns = interleaved_columns(model.d_model)
        extra = table.astype(np.float32).take(columns, 1)
        extra -= sinusoid_table(model.positions, *extra.shape)
        differs = np.abs(extra).max(1) > ROUNDING
        if differs[1:].any() or (differs[0] and "encoder" in name):
            model.positions, model.max_positions = "learned", len(table)
            return None
        start = extra[0] if differs[0] else None
    return start


def _read_params(
    settings: Mapping[str, Any], model: ModelConfig, vocabulary: Vocabulary, tensors: Tensors
) -> FlatParams:
    """Returns the parameters with our order of rows and columns."""
    is_sinusoidal = model.positions != "learned"
    columns = interleaved_columns(model.d_model) if is_sinusoidal else np.arange(model.d_model)
    bias, order = f"{SOFTMAX[model.embedding_sharing]}/bias", vocabulary.orders[1]
    silenced = [order.index(word) for word in silenced_words(settings) if word in order]
    if order[BOS] in (order[PAD], order[EOS]):
        silenced.append(BOS)  # a copy of theirs, which would be found in its stead

    def change(name: str, array: np.ndarray) -> np.ndarray:
        if name.endswith("_positions/table"):
            return array[OFFSET:] if settings["model_type"] == "mbart" else array
        array = array.reshape(-1) if name == bias else array
        array = reorder_vocabulary(name, array, vocabulary.orders)
        if name == bias:
            array[silenced] = NEVER
        return permute_array(name, array, columns) if is_sinusoidal else array

    table, ignored = as_stored(entries(model), model.embedding_sharing, tensors)
    if is_sinusoidal:
        ignored += POSITION_TABLES + FAIRSEQ_BUFFERS
    if "final_logits_bias" not in tensors:  # M2M100
        table = [entry for entry in table if entry.ours != bias]
    params = read(table, tensors, ignored=ignored, change=change)
    return {bias: change(bias, np.zeros(max(order) + 1, np.float32))} | params
