"""Writes translation models as folders of Hugging Face: MarianMTModel and MarianTokenizer.

Tokens keep their ids; columns of sinusoids become sin, sin, …, cos, cos, …, as MarianMT computes
them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from transformer.config import Config
from transformer.interop import writing
from transformer.interop.huggingface.seq2seq import NAMES, SETTINGS
from transformer.interop.portable_model import PortableModel
from transformer.interop.weights import folds
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.name_table import array_names, entries, write, zero_biases
from transformer.special_tokens import SpecialIds

MIN_POSITIONS = 512  # longer texts end in an IndexError there
EPSILON = 1e-5  # of every layer normalisation there


def order_ids(model: PortableModel) -> list[list[int]]:
    """Returns, of source and target, the id in the run of each id of the folder.

    It is the same; but MarianMT has a single id of <pad>, below the sizes of both vocabularies, so
    that is 0 if the run has two or, which -1 says, none.
    """
    ids_of = [range(tokenizer.vocab_size) for tokenizer in model.tokenizers]
    pads = [tokenizer.special.pad for tokenizer in model.tokenizers]
    if pads[0] == pads[1] >= 0:
        return [[*ids] for ids in ids_of]
    return [[pad, *(i for i in ids if i != pad)] for ids, pad in zip(ids_of, pads, strict=True)]


def save_marian(model: PortableModel, folder: Path) -> list[str]:
    """Writes a new folder; returns what to know of its search.

    Raises ValueError with every reason why MarianMT cannot be the model.
    """
    config, decoding, reasons = model.config.model, model.config.decoding, []
    if config.norm_epsilon > EPSILON:
        reasons.append(f"model.norm_epsilon={config.norm_epsilon:g} (it has {EPSILON:g})")
    if len(writing.sentencepiece_files(model.tokenizers)) < len(model.tokenizers):
        reasons.append("a tokenizer that is not SentencePiece")
    if first := writing.first_pieces(model.tokenizers[1]):
        reasons.append(f"translations that begin with {first[0]}")
    needed = {"model.norm": "post", "model.embedding_norm": False}
    writing.check_holds("MarianMT", model.config, needed=needed, reasons=reasons)
    num_positions = max(MIN_POSITIONS, config.max_positions, model.config.data.row_length)
    notes, orders = writing.search_notes(decoding, "transformers"), order_ids(model)
    readme = writing.render(
        "marian.md.jinja",
        has_tables=config.positions != "sinusoidal",
        language="".join(f"{piece} " for piece in writing.first_pieces(model.tokenizers[0])),
        has_gnmt=writing.is_gnmt(decoding),
        width=decoding.beam_size,
        alpha=decoding.alpha,
        norm_epsilon=config.norm_epsilon,
        notes=notes,
    )
    files = _settings(model, orders, num_positions) | {"README.md": readme}
    files |= _vocabulary_files(model, orders, num_positions) | writing.sentencepiece_files(
        model.tokenizers
    )
    writing.write_files(folder, files)
    tensors = _tensors(model, orders, num_positions)
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return notes


def _settings(model: PortableModel, orders: list[list[int]], num_positions: int) -> dict[str, Any]:
    """Returns config.json and generation_config.json."""
    config, decoding, (source, target) = model.config.model, model.config.decoding, orders
    special = SpecialIds(*map(target.index, model.tokenizers[1].special))
    control = {
        "bos_token_id": special.bos,
        "decoder_start_token_id": special.bos,
        "eos_token_id": special.eos,
        "forced_eos_token_id": special.eos,
        "pad_token_id": special.pad,
    }
    settings = SETTINGS.write(config) | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "decoder_vocab_size": len(target),
        "dtype": "float32",
        "is_encoder_decoder": True,
        "max_position_embeddings": num_positions,
        "share_encoder_decoder_embeddings": config.embedding_sharing == "all",
        "tie_word_embeddings": config.embedding_sharing != "none",
        "vocab_size": len(source),
        **control,
    }
    search: dict[str, Any] = {
        "bad_words_ids": [[i] for i in sorted({special.pad, special.bos} - {special.eos})],
        "max_length": num_positions,
        "num_beams": decoding.beam_size,
        **control,
    }
    if decoding.beam_size > 1:
        search["length_penalty"] = decoding.alpha
    return {"config.json": settings, "generation_config.json": search}


def _vocabulary_files(
    model: PortableModel, orders: list[list[int]], num_positions: int
) -> dict[str, Any]:
    """Returns vocab.json, target_vocab.json if there are two, and tokenizer_config.json."""
    source, target = ([*writing.vocabulary(tokenizer), "<pad>"] for tokenizer in model.tokenizers)
    vocabularies = [  # <pad> for an id of -1
        {pieces[i]: number for number, i in enumerate(order)}
        for pieces, order in zip((source, target), orders, strict=True)
    ]
    files: dict[str, Any] = {"vocab.json": vocabularies[0]}
    if source != target:
        files["target_vocab.json"] = vocabularies[1]
    data, special = model.config.data, model.tokenizers[1].special
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": data.source_language,
        "target_lang": data.target_language,
        "model_max_length": num_positions,
        "separate_vocabs": source != target,
        "clean_up_tokenization_spaces": False,
        "eos_token": target[special.eos],
        "pad_token": target[special.pad],
        "unk_token": target[special.unk],
    }
    return files


def _tensors(
    model: PortableModel, orders: list[list[int]], num_positions: int
) -> dict[str, np.ndarray]:
    """Returns all tensors by their names, with the positions that MarianMT cannot compute."""
    config = replace(model.config.model, projection_bias=True, output_bias=True)
    params = {name: np.asarray(array, np.float32) for name, array in model.params.items()}
    if config.positions == "sinusoidal":
        columns = np.argsort(folds.interleaved_columns(config.d_model))
        params = {
            name: folds.permute_columns(name, array, columns) for name, array in params.items()
        }
    else:
        for name in ("source_positions/table", "target_positions/table"):
            params[name] = folds.position_table(config, params, name, num_positions)
        config = replace(config, positions="learned")
    table = entries(array_names(Config(model=config), model.tokenizers), NAMES)
    params |= zero_biases(params, table)
    for name in filter(folds.has_token_rows, params):
        order = orders[0 if name.startswith("source") else 1]
        params[name] = folds.append_row(name, params[name])[order]  # the last: a new <pad>
    tensors = write(table, params)
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    return tensors
