"""Writes translation models as folders of Hugging Face: MarianMTModel and MarianTokenizer.

Ids become </s>, <unk>, the pieces, <pad>; columns of sinusoids become sin, sin, …, cos, cos, …,
as MarianMT computes them. How its decoder starts is described at `save_marian`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from transformer.config import ModelConfig
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.interop.huggingface.seq2seq import NAMES, POSITION_TABLES, entries
from transformer.interop.portable_model import SOFTMAX, TARGET, FlatParams, PortableModel
from transformer.interop.settings import SettingsTable
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.folds import (
    NEVER,
    interleaved_columns,
    permute_model_axis,
    position_table,
    reorder_vocabulary,
)
from transformer.interop.weights.name_table import Entry, write, zero_biases
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
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, SPECIAL_NAMES, UNK

Start = Literal["zero", "token"]  # how the decoder starts, see `save_marian`
MIN_POSITIONS = 512  # longer texts end in an IndexError there
EPSILON = 1e-5  # of every layer normalisation there


@dataclass(frozen=True)
class Ids:
    """Our id of each of theirs, for (source, target), and whether both have one vocabulary."""

    source: list[int]
    target: list[int]
    are_shared: bool

    def theirs(self, token: int) -> int | None:
        """Returns their id of a target's control token of ours, None if they have none."""
        return self.target.index(token) if token in self.target else None


def order_ids(model: PortableModel, start: str) -> Ids:
    """Returns which id of ours each of theirs is; only start="token" has <s>.

    With one vocabulary <pad> is last, as in the published models; with two, which may differ in
    size, it must have the same id in both.
    """
    source, target = (vocabulary(tokenizer) for tokenizer in model.tokenizers)
    starts = [BOS] if start == "token" else []
    rest = range(NUM_SPECIAL, len(target))
    if source == target:
        order = [EOS, UNK, *starts, *rest, PAD]
        return Ids(order, order, are_shared=True)
    source_order = [EOS, UNK, PAD, *range(NUM_SPECIAL, len(source))]
    return Ids(source_order, [EOS, UNK, PAD, *starts, *rest], are_shared=False)


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


def marian_tensors(
    model: PortableModel, ids: Ids, start: str, num_positions: int
) -> dict[str, np.ndarray]:
    """Returns all tensors by their names; `start` as `save_marian` takes it."""
    config = replace(model.config.model, projection_bias=True, output_bias=True)
    params = {name: np.asarray(array, np.float32) for name, array in model.params.items()}
    params |= zero_biases(params, entries(config))
    has_folded = start == "zero" and bool(_start_vector(config, params).any())
    table = _table_of_names(config, has_folded=has_folded)
    if config.positions != "sinusoidal" or has_folded:
        for side in ("source", "target"):
            params[f"{side}_positions/table"] = position_table(config, params, side, num_positions)
    if start == "zero":
        _fold_start(config, params)
    known = {entry.ours for entry in table}
    params = {name: params[name] for name in known}
    if config.positions == "sinusoidal":
        columns = np.argsort(interleaved_columns(config.d_model))
        params = permute_model_axis(params, columns)
    orders = ids.source, ids.target
    params = {name: reorder_vocabulary(name, params[name], orders) for name in params}
    tensors = write(table, params)
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    return tensors


def _table_of_names(config: ModelConfig, *, has_folded: bool) -> list[Entry]:
    """Returns the table of names, with the positions that MarianMT cannot compute."""
    if config.positions != "sinusoidal":
        return entries(replace(config, positions="learned"))
    folded = [Entry("target_positions/table", POSITION_TABLES[1])] if has_folded else []
    return [*entries(config), *folded]


def _start_vector(config: ModelConfig, params: FlatParams) -> np.ndarray:
    """Returns what the decoder starts with before the vector of its position is added, [D]."""
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    return scale * params[f"{TARGET[config.embedding_sharing]}/table"][BOS]


def _fold_start(config: ModelConfig, params: FlatParams) -> None:
    """Lets a row of zeros, <pad>, start the decoder: its first position takes over the vector.

    Nothing but the start stands there. <pad> is no longer scored, nor is <s>, which is left out: a
    trained model gives both next to no probability.
    """
    if (vector := _start_vector(config, params)).any():
        positions = params["target_positions/table"].copy()
        positions[0] += vector
        params["target_positions/table"] = positions
    sharing = config.embedding_sharing
    for name, row in ((f"{TARGET[sharing]}/table", 0.0), (f"{SOFTMAX[sharing]}/bias", NEVER)):
        params[name] = params[name].copy()
        params[name][PAD] = row
