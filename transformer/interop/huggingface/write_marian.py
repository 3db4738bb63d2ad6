"""Writes translation models as folders of Hugging Face: MarianMTModel and MarianTokenizer.

Tokens keep their ids; columns of sinusoids become sin, sin, …, cos, cos, …, as MarianMT computes
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.interop.huggingface.seq2seq import NAMES, entries
from transformer.interop.portable_model import PortableModel
from transformer.interop.settings import SettingsTable
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.folds import (
    append_row,
    has_token_rows,
    interleaved_columns,
    permute_model_axis,
    position_table,
)
from transformer.interop.weights.name_table import write, zero_biases
from transformer.interop.writing import (
    check_holds,
    first_pieces,
    is_gnmt,
    render,
    search_notes,
    sentencepiece_files,
    vocabulary,
    write_files,
)
from transformer.special_tokens import SpecialIds

MIN_POSITIONS = 512  # longer texts end in an IndexError there
EPSILON = 1e-5  # of every layer normalisation there


@dataclass(frozen=True)
class Ids:
    """The order in which tokens are written.

    source, target: the id in the run of each id of the folder, -1 for a <pad> that the run has not.
    special: the folder's ids of the target's control tokens.
    are_shared: whether both languages have one vocabulary.
    """

    source: list[int]
    target: list[int]
    special: SpecialIds
    are_shared: bool


def order_ids(model: PortableModel) -> Ids:
    """Returns the order of the run; but <pad> is first if the languages have two ids of it.

    MarianMT has a single id of <pad>, which must be below the sizes of both vocabularies.
    """
    source, target = model.tokenizers
    is_common = source.special.pad == target.special.pad >= 0

    def order(tokenizer: Tokenizer) -> list[int]:
        ids, pad = range(tokenizer.vocab_size), tokenizer.special.pad
        return [*ids] if is_common else [pad, *(i for i in ids if i != pad)]

    orders = order(source), order(target)
    special = SpecialIds(*(orders[1].index(i) for i in target.special))
    return Ids(*orders, special, vocabulary(source) == vocabulary(target))


def save_marian(model: PortableModel, folder: Path) -> list[str]:
    """Writes a new folder; returns what to know of its search.

    Raises ValueError with every reason why MarianMT cannot be the model.
    """
    _check(model)
    config, decoding, ids = model.config.model, model.config.decoding, order_ids(model)
    notes = search_notes(decoding, "transformers")
    readme = render(
        "huggingface/marian.md.jinja",
        has_tables=config.positions != "sinusoidal",
        language="".join(f"{piece} " for piece in first_pieces(model.tokenizers[0])),
        has_gnmt=is_gnmt(decoding),
        width=decoding.beam_size,
        alpha=decoding.alpha,
        norm_epsilon=config.norm_epsilon,
        notes=notes,
    )
    files = _settings(model, ids) | _vocabulary_files(model, ids) | {"README.md": readme}
    write_files(folder, files | sentencepiece_files(model.tokenizers))
    save_tensors(folder / "model.safetensors", _tensors(model, ids), {"format": "pt"})
    return notes


def _check(model: PortableModel) -> None:
    config, target, reasons = model.config, model.tokenizers[-1], []
    if config.model.norm_epsilon > EPSILON:
        reasons.append(f"model.norm_epsilon={config.model.norm_epsilon:g} (it has {EPSILON:g})")
    if len(sentencepiece_files(model.tokenizers)) < len(model.tokenizers):
        reasons.append("a tokenizer that is not SentencePiece")
    if first := first_pieces(target):
        reasons.append(f"translations that begin with {first[0]}")
    needed = {"model.norm": "post", "model.embedding_norm": False}
    way_out = "use the format ctranslate2, program or safetensors"
    check_holds("MarianMT", config, way_out, needed=needed, reasons=reasons)


def _num_positions(model: PortableModel) -> int:
    config = model.config
    return max(MIN_POSITIONS, config.model.max_positions, config.data.row_length)


def _settings(model: PortableModel, ids: Ids) -> dict[str, Any]:
    """Returns config.json and generation_config.json."""
    config, decoding = model.config.model, model.config.decoding
    special = ids.special
    control = {
        "bos_token_id": special.bos,
        "decoder_start_token_id": special.bos,
        "eos_token_id": special.eos,
        "forced_eos_token_id": special.eos,
        "pad_token_id": special.pad,
    }
    settings = SettingsTable(NAMES, {}, {}).write(config) | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.d_ff,
        "decoder_layers": config.depth(is_decoder=True),
        "decoder_vocab_size": len(ids.target),
        "dtype": "float32",
        "is_encoder_decoder": True,
        "max_position_embeddings": _num_positions(model),
        "share_encoder_decoder_embeddings": config.embedding_sharing == "all",
        "tie_word_embeddings": config.embedding_sharing != "none",
        "vocab_size": len(ids.source),
        **control,
    }
    search: dict[str, Any] = {
        "bad_words_ids": [[i] for i in sorted({special.pad, special.bos} - {special.eos})],
        "max_length": _num_positions(model),
        "num_beams": decoding.beam_size,
        **control,
    }
    if decoding.beam_size > 1:
        search["length_penalty"] = decoding.alpha
    return {"config.json": settings, "generation_config.json": search}


def _vocabulary_files(model: PortableModel, ids: Ids) -> dict[str, Any]:
    """Returns vocab.json, target_vocab.json if there are two, and tokenizer_config.json."""

    def numbered(side: int, order: Sequence[int]) -> dict[str, int]:
        pieces = [*vocabulary(model.tokenizers[side]), "<pad>"]  # the last for an order of -1
        return {pieces[i]: number for number, i in enumerate(order)}

    vocabularies = [numbered(0, ids.source), numbered(1, ids.target)]
    names = [*vocabularies[1]]
    data = model.config.data
    about = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": data.source_language,
        "target_lang": data.target_language,
        "model_max_length": _num_positions(model),
        "separate_vocabs": not ids.are_shared,
        "clean_up_tokenization_spaces": False,
        "eos_token": names[ids.special.eos],
        "pad_token": names[ids.special.pad],
        "unk_token": names[ids.special.unk],
    }
    files = {"tokenizer_config.json": about, "vocab.json": vocabularies[0]}
    return files if ids.are_shared else files | {"target_vocab.json": vocabularies[1]}


def _tensors(model: PortableModel, ids: Ids) -> dict[str, np.ndarray]:
    """Returns all tensors by their names, with the positions that MarianMT cannot compute."""
    config = replace(model.config.model, projection_bias=True, output_bias=True)
    params = {name: np.asarray(array, np.float32) for name, array in model.params.items()}
    if config.positions == "sinusoidal":
        params = permute_model_axis(params, np.argsort(interleaved_columns(config.d_model)))
    else:
        for side in ("source", "target"):
            table = position_table(config, params, side, _num_positions(model))
            params[f"{side}_positions/table"] = table
        config = replace(config, positions="learned")
    params |= zero_biases(params, entries(config))
    for name in filter(has_token_rows, params):
        order = ids.source if name.startswith("source") else ids.target
        params[name] = append_row(name, params[name])[order]  # the last for a <pad> that is new
    tensors = write(entries(config), params)
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    return tensors
