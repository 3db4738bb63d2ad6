"""Writes translation models as folders of Hugging Face: MarianMTModel and MarianTokenizer.

Ids become </s>, <unk>, the pieces, <pad>; columns of sinusoids become sin, sin, …, cos, cos, …,
as MarianMT computes them. How its decoder starts is described at `save_marian`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from transformer.data.tokenizers.piece_list import PieceListTokenizer
from transformer.interop.huggingface.seq2seq_names import POSITION_TABLES
from transformer.interop.huggingface.settings import their_activation
from transformer.interop.huggingface.write_marian_tensors import Ids, marian_tensors, order_ids
from transformer.interop.portable_model import PortableModel
from transformer.interop.weights.files import save_tensors
from transformer.interop.writing import (
    first_pieces,
    is_gnmt,
    refuse,
    render,
    search_notes,
    sentencepiece_files,
    unsupported_settings,
    vocabulary,
)
from transformer.special_tokens import BOS, EOS, PAD, SPECIAL_NAMES, UNK

Start = Literal["zero", "token"]  # how the decoder starts, see `save_marian`
MIN_POSITIONS = 512  # longer texts end in an IndexError there
EPSILON = 1e-5  # of every layer normalisation there


def save_marian(model: PortableModel, folder: Path, start: str = "zero") -> str:
    """Writes a new folder; returns a sentence about it.

    start: how the decoder gets the vector that it starts with. "zero": it starts with <pad>, a row
    of zeros, to which the first position adds the vector; so CTranslate2's converter wants it, but
    `save_pretrained` of transformers drops positions. "token": it starts with <s>, and can be
    trained further.

    Raises ValueError with every reason why MarianMT cannot be this model.
    """
    refuse(_reasons(model), "MarianMT", "use the format ctranslate2, program or safetensors")
    if start not in get_args(Start):
        raise ValueError(f"start is one of {', '.join(get_args(Start))}, not {start}.")
    ids = order_ids(model, start)
    tensors = write_model(model, ids, folder, start)
    for name, content in _vocabulary_files(model, ids).items():
        _write_json(folder / name, content)
    for name, content in sentencepiece_files(model.tokenizers).items():
        (folder / name).write_bytes(content)
    text = _readme(model, start, has_tables=bool(tensors.keys() & {*POSITION_TABLES}))
    (folder / "README.md").write_text(text, encoding="utf-8")
    mib = sum(tensor.nbytes for tensor in tensors.values()) / 2**20
    return f"MarianMT of Hugging Face, {mib:,.1f} MiB of parameters"


def _readme(model: PortableModel, start: str, *, has_tables: bool) -> str:
    config, decoding = model.config.model, model.config.decoding
    return render(
        "huggingface/marian.md.jinja",
        start=start,
        has_tables=has_tables,
        is_sinusoidal=config.positions == "sinusoidal",
        language="".join(f"{piece} " for piece in first_pieces(model.tokenizers[0])),
        has_gnmt=is_gnmt(decoding),
        width=decoding.beam_size,
        alpha=decoding.alpha,
        norm_epsilon=config.norm_epsilon,
        notes=search_notes(decoding, "transformers"),
    )


def write_model(model: PortableModel, ids: Ids, folder: Path, start: str) -> dict[str, np.ndarray]:
    """Writes the files of MarianMTModel alone; returns its tensors."""
    folder.mkdir(parents=True)
    tensors = marian_tensors(model, ids, start, _num_positions(model))
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    settings, search = _settings(model, ids)
    _write_json(folder / "config.json", settings)
    _write_json(folder / "generation_config.json", search)
    return tensors


def _write_json(path: Path, content: object) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _reasons(model: PortableModel) -> list[str]:
    """Returns what MarianMT does not have, as "model.norm=pre"."""
    config = model.config.model
    reasons = unsupported_settings(model.config)
    reasons += ["model.norm=pre"] if config.norm == "pre" else []
    reasons += ["model.embedding_norm=True"] if config.embedding_norm else []
    if config.norm_epsilon > EPSILON:
        reasons.append(f"model.norm_epsilon={config.norm_epsilon:g} (it has {EPSILON:g})")
    if len(sentencepiece_files(model.tokenizers)) < len(model.tokenizers):
        reasons.append("a tokenizer that is not SentencePiece")
    target = model.tokenizers[-1] if model.tokenizers else None
    if isinstance(target, PieceListTokenizer) and target.first:
        reasons.append(f"translations that begin with {target.first[0]}")
    return reasons


def _num_positions(model: PortableModel) -> int:
    config = model.config
    return max(MIN_POSITIONS, config.model.max_positions, config.data.row_length)


def _settings(model: PortableModel, ids: Ids) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns config.json and generation_config.json."""
    config, decoding = model.config.model, model.config.decoding
    pad, end, bos = (ids.theirs(token) for token in (PAD, EOS, BOS))
    control = {
        "bos_token_id": bos,
        "decoder_start_token_id": pad if bos is None else bos,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "pad_token_id": pad,
    }
    settings = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "activation_function": their_activation(config.activation),
        "attention_dropout": config.attention_dropout_rate,
        "d_model": config.d_model,
        "decoder_vocab_size": len(ids.target),
        "dropout": config.dropout_rate,
        "dtype": "float32",
        "is_encoder_decoder": True,
        "max_position_embeddings": _num_positions(model),
        "scale_embedding": config.scale_embedding,
        "share_encoder_decoder_embeddings": config.embedding_sharing == "all",
        "tie_word_embeddings": config.embedding_sharing != "none",
        "vocab_size": len(ids.source),
        **control,
    }
    for stack in ("encoder", "decoder"):
        settings[f"{stack}_attention_heads"] = config.num_heads
        settings[f"{stack}_ffn_dim"] = config.d_ff
        settings[f"{stack}_layers"] = config.depth(is_decoder=stack == "decoder")
    silent = [[pad]] if bos is None else [[pad], [bos]]
    search: dict[str, Any] = {
        "bad_words_ids": silent,
        "max_length": _num_positions(model),
        **control,
    }
    search["num_beams"] = decoding.beam_size
    if decoding.beam_size > 1:
        search["length_penalty"] = decoding.alpha
    return settings, search


def _vocabulary_files(model: PortableModel, ids: Ids) -> dict[str, Any]:
    """Returns vocab.json, target_vocab.json if there are two, and tokenizer_config.json."""

    def numbered(side: int, order: Sequence[int]) -> dict[str, int]:
        pieces = vocabulary(model.tokenizers[side])
        return {pieces[ours]: theirs for theirs, ours in enumerate(order)}

    data = model.config.data
    about = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": data.source_language,
        "target_lang": data.target_language,
        "model_max_length": _num_positions(model),
        "separate_vocabs": not ids.are_shared,
        "clean_up_tokenization_spaces": False,
        "eos_token": SPECIAL_NAMES[EOS],
        "pad_token": SPECIAL_NAMES[PAD],
        "unk_token": SPECIAL_NAMES[UNK],
    }
    files = {"tokenizer_config.json": about, "vocab.json": numbered(0, ids.source)}
    return files if ids.are_shared else files | {"target_vocab.json": numbered(1, ids.target)}
