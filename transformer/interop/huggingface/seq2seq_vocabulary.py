"""The vocabularies of Hugging Face's translation models."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etils import epath

from transformer.data.corpora.languages import M2M100, MBART50, NLLB, WMT21
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import read_sentencepiece
from transformer.files.reading import read_file
from transformer.interop.settings import naming, read_settings
from transformer.special_tokens import SpecialIds

FAIRSEQ_CONTROL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3 of all of them but Marian
SENTENCEPIECE = "sentencepiece.bpe.model"


@dataclass
class Vocabulary:
    """Both tokenizers of a model; languages: their names, "" where the folder does not say."""

    tokenizers: tuple[PieceListTokenizer, PieceListTokenizer]
    languages: tuple[str, str]
    notes: list[str] = field(default_factory=list)


def read_vocabulary(
    folder: epath.Path, settings: Mapping[str, Any], source_language: str, target_language: str
) -> Vocabulary:
    """Reads the tokenizer of a folder whose config.json holds `settings`.

    Raises ValueError if a file is missing or damaged, or if a language is needed or unknown.
    """
    file = folder / "tokenizer_config.json"
    about = read_settings(folder, file.name) if file.is_file() else {}
    languages = source_language, target_language
    if settings["model_type"] == "marian":
        return _read_marian(folder, settings, about, languages)
    sentencepiece, notes = read_model(folder / SENTENCEPIECE), []
    kind = about.get("tokenizer_class") or settings.get("tokenizer_class") or ""
    if settings["model_type"] == "m2m_100" and (folder / "vocab.json").is_file():
        names = WMT21 if about.get("language_codes") == "wmt21" else M2M100
        known = {name: f"__{name}__" for name in names.split()}
        ids = read_settings(folder, "vocab.json")
        ids |= {piece: len(ids) + i for i, piece in enumerate(known.values())}
    else:
        is_mbart = settings["model_type"] == "mbart"
        if (is_mbart and kind.startswith("MBartTokenizer")) or about.get("legacy_behaviour"):
            raise ValueError(
                f"{folder} puts the language behind a sentence ({kind}), as no tokenizer of this "
                f"package does: take an mBART-50 or NLLB model whose languages come first."
            )
        names = (MBART50 if is_mbart else NLLB).split()
        ids = _fairseq_ids(folder, sentencepiece, [*names, "<mask>"])
        known = {name: name for name in names if name in ids}
        if not (folder / "tokenizer.json").is_file() and not about.get("added_tokens_decoder"):
            notes.append("The folder does not number its pieces: they get the ids of fairseq.")
    pieces = _by_id(folder, ids, settings["vocab_size"])
    added = about.get("added_tokens_decoder")
    for number, token in added.items() if isinstance(added, dict) else ():
        piece = token.get("content") if isinstance(token, dict) else token
        if str(ids.get(str(piece))) != number:
            raise ValueError(f"{file} gives {piece!r} the id {number}, the vocabulary another.")
    source, target = (
        PieceListTokenizer(
            sentencepiece, pieces, [_chosen(flag, name, known)], _special_ids(pieces, settings)
        )
        for flag, name in zip(("source_language", "target_language"), languages, strict=True)
    )
    return Vocabulary((source, target), languages, notes)


def _fairseq_ids(folder: epath.Path, sentencepiece: bytes, added: Sequence[str]) -> dict[str, Any]:
    """Returns the ids of the pieces, as tokenizer.json has them, or without it as fairseq does."""
    if not (folder / "tokenizer.json").is_file():
        processor = read_sentencepiece(sentencepiece)
        pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
        return {piece: i for i, piece in enumerate([*FAIRSEQ_CONTROL, *pieces, *added])}
    content = read_settings(folder, "tokenizer.json")
    try:
        ids = content["model"]["vocab"]
        if isinstance(ids, list):  # [piece, its log-probability], by id
            ids = {piece: i for i, (piece, _) in enumerate(ids)}
        return ids | {token["content"]: token["id"] for token in content["added_tokens"]}
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{folder}/tokenizer.json does not number pieces; restore it.") from None


def _read_marian(
    folder: epath.Path,
    settings: Mapping[str, Any],
    about: Mapping[str, Any],
    languages: tuple[str, str],
) -> Vocabulary:
    """Reads vocab.json (and target_vocab.json), source.spm and target.spm."""
    models = [read_model(folder / f"{side}.spm") for side in ("source", "target")]
    has_two = not settings.get("share_encoder_decoder_embeddings", True)
    target_file = "target_vocab.json" if has_two and about.get("separate_vocabs") else "vocab.json"
    num_source = settings["vocab_size"]
    source, target = (
        _by_id(folder / name, read_settings(folder, name), num_rows)
        for name, num_rows in (
            ("vocab.json", num_source),
            (target_file, settings.get("decoder_vocab_size") or num_source),
        )
    )
    special = source_special = _special_ids(target, settings)
    if has_two:
        pad, end, unknown = (id_of(name, source) for name in ("<pad>", "</s>", "<unk>"))
        source_special = SpecialIds(pad, pad, end, unknown, unknown)
    first, notes = first_of_marian(languages[1], source)
    if gaps := {piece for piece in source + target if piece.startswith("<unused ")}:
        notes.append(f"The vocabulary has no piece for {len(gaps)} of its ids: no text has them.")
    tokenizers = (
        PieceListTokenizer(models[0], source, first, source_special),
        PieceListTokenizer(models[1], target, special=special),
    )
    named = [about.get(key) or "" for key in ("source_lang", "target_lang")]
    return Vocabulary(tokenizers, (languages[0] or named[0], languages[1] or named[1]), notes)


def first_of_marian(language: str, pieces: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns (the pieces that begin every source, notes) of a model of one or several targets."""
    known = {p[2:-2]: p for p in pieces if p.startswith(">>") and p.endswith("<<") and len(p) > 4}
    if not known:
        return [], []
    if language:
        return [_chosen("target_language", language, known)], []
    return [], [
        f"It translates into {len(known)} languages: begin each sentence with one, as "
        f"{next(iter(known.values()))}, or import it with target_language=…"
    ]


def _special_ids(pieces: Sequence[str], settings: Mapping[str, Any]) -> SpecialIds:
    """Returns the control ids; the decoder starts with <pad> or the end in most models."""
    unknown = id_of("<unk>", pieces)
    names = "pad_token_id", "decoder_start_token_id", "eos_token_id"
    pad, start, end = control = [settings[name] for name in names]
    is_known = min(control) >= 0 and max(control) < len(pieces)
    if not is_known or (pieces[pad], pieces[end]) != ("<pad>", "</s>"):
        raise ValueError(
            f"config.json and the vocabulary do not fit: pad_token_id={pad}, "
            f"decoder_start_token_id={start} and eos_token_id={end} of {len(pieces)} pieces."
        )
    return SpecialIds(pad, start, end, unknown, unknown)


def id_of(piece: str, pieces: Sequence[str]) -> int:
    """Returns the id of a piece; raises ValueError if there is none."""
    if piece not in pieces:
        raise ValueError(f"The vocabulary has no piece {piece}; restore its file.")
    return pieces.index(piece)


def _by_id(file: epath.Path, ids: Mapping[str, Any], num_rows: int) -> list[str]:
    """Returns the piece of each row of a table; a name for a row without one spells no text.

    Raises ValueError for ids that repeat, and for a table so large that it would fill the memory.
    """
    try:
        by_id = {int(i): piece for piece, i in ids.items()}
    except (TypeError, ValueError):
        by_id = {}
    if len(by_id) < len(ids) or not by_id or min(by_id) < 0:
        raise ValueError(f"{file} does not number pieces; restore the file.")
    if not max(by_id) < num_rows <= 2 * len(by_id) + 10_000:
        raise ValueError(f"{file} has {1 + max(by_id)} pieces, the model rows for {num_rows}.")
    return [by_id.get(i, f"<unused {i}>") for i in range(num_rows)]


def read_model(file: epath.Path | Path) -> bytes:
    """Returns the bytes of a SentencePiece model; raises ValueError, which names its file."""
    data = read_file(file)
    with naming(file):
        read_sentencepiece(data)
    return data


def _chosen(flag: str, name: str, known: Mapping[str, str]) -> str:
    """Returns the piece of a language; raises ValueError if there is none of that name."""
    if name in known:
        return known[name]
    if not name:
        few = ", ".join([*known][:4])
        raise ValueError(f"This model needs {flag}, one of its {len(known)} languages: {few}, …")
    alike = [other for other in known if other[:2].lower() == name[:2].lower()]
    nearest = alike[:4] or difflib.get_close_matches(name, known, 4)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"they are {', '.join(known)}."
    raise ValueError(f"{flag}={name} is none of the {len(known)} languages of this model; {hint}")
