"""Vocabularies of translation models: SentencePiece models that split text, and lists of ids."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformer.data.corpora.languages import M2M100, MBART50, NLLB, WMT21
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import read_sentencepiece
from transformer.files.reading import read_file
from transformer.interop.portable_model import Vocabulary
from transformer.interop.settings import naming, read_settings
from transformer.special_tokens import SpecialIds

# By kind: the languages, and how a piece spells one. Those with "__" have the ids after vocab.json.
LANGUAGES = {
    "m2m_100": (M2M100, "__{}__"),
    "wmt21": (WMT21, "__{}__"),
    "nllb": (NLLB, "{}"),
    "mbart": (MBART50, "{}"),
}
FAIRSEQ_CONTROL = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3 of all of them but Marian


def read_vocabulary(
    folder: Path, settings: Mapping[str, Any], languages: tuple[str, str]
) -> Vocabulary:
    """Reads the tokenizer of a folder of Hugging Face whose config.json holds `settings`.

    Raises ValueError if a file is missing or damaged, or if a language is needed or unknown.
    """
    file = folder / "tokenizer_config.json"
    about = read_settings(folder, file.name) if file.is_file() else {}
    read = _read_marian if settings["model_type"] == "marian" else _read_many_languages
    return read(folder, settings, about, languages)


def _read_many_languages(
    folder: Path, settings: Mapping[str, Any], about: Mapping[str, Any], languages: tuple[str, str]
) -> Vocabulary:
    """Reads sentencepiece.bpe.model and, if there is one, vocab.json or tokenizer.json."""
    notes: list[str] = []
    model, model_pieces = read_model(folder / "sentencepiece.bpe.model")
    kind, added = settings["model_type"], about.get("added_tokens_decoder")
    added = added if isinstance(added, dict) else {}
    if kind == "m2m_100" and not (folder / "vocab.json").is_file():
        kind = "nllb"
    elif about.get("language_codes") == "wmt21":
        kind = "wmt21"
    names, spelling = LANGUAGES[kind]
    known = {name: spelling.format(name) for name in names.split()}
    if spelling != "{}":
        ids = read_settings(folder, "vocab.json")
        ids |= {piece: len(ids) + i for i, piece in enumerate(known.values())}
    else:
        name = about.get("tokenizer_class") or settings.get("tokenizer_class") or ""
        if name.startswith("MBartTokenizer") or about.get("legacy_behaviour"):
            raise ValueError(
                f"{folder} puts the language behind a sentence ({name}), as no tokenizer of this "
                f"package does: take an mBART-50 or NLLB model whose languages come first."
            )
        if (folder / "tokenizer.json").is_file():
            ids = _listed_ids(folder)
        else:
            pieces = [*FAIRSEQ_CONTROL, *model_pieces[3:], *known, "<mask>"]
            ids = {piece: i for i, piece in enumerate(pieces)}
            if not added:
                notes.append("The folder does not number its pieces: they get the ids of fairseq.")
    for number, token in added.items():
        piece = token.get("content") if isinstance(token, dict) else token
        if str(ids.get(str(piece))) != number:
            raise ValueError(f"A setting gives {piece!r} the id {number}, the vocabulary another.")
    pieces = _by_id(folder, ids, settings["vocab_size"])
    known = {name: piece for name, piece in known.items() if piece in ids}
    special = _special_ids(pieces, settings)
    source, target = (
        PieceListTokenizer(model, pieces, [_chosen(flag, name, known)], special)
        for flag, name in zip(("source_language", "target_language"), languages, strict=True)
    )
    return Vocabulary((source, target), languages, notes)


def _listed_ids(folder: Path) -> dict[str, Any]:
    """Returns the ids of the pieces in tokenizer.json."""
    content = read_settings(folder, "tokenizer.json")
    try:
        ids = content["model"]["vocab"]
        if isinstance(ids, list):  # [piece, its log-probability], by id
            ids = {piece: i for i, (piece, _) in enumerate(ids)}
        return ids | {token["content"]: token["id"] for token in content["added_tokens"]}
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{folder}/tokenizer.json does not number pieces; restore it.") from None


def _read_marian(
    folder: Path, settings: Mapping[str, Any], about: Mapping[str, Any], languages: tuple[str, str]
) -> Vocabulary:
    """Reads vocab.json (and target_vocab.json), source.spm and target.spm."""
    models = [read_model(folder / f"{side}.spm")[0] for side in ("source", "target")]
    has_two = not settings.get("share_encoder_decoder_embeddings", True)
    target_file = "target_vocab.json" if has_two and about.get("separate_vocabs") else "vocab.json"
    num_source = settings["vocab_size"]
    num_target = settings.get("decoder_vocab_size") or num_source
    source, target = (
        _by_id(folder / name, read_settings(folder, name), num_rows)
        for name, num_rows in (("vocab.json", num_source), (target_file, num_target))
    )
    special = source_special = _special_ids(target, settings)
    if has_two:
        pad, end, unknown = (id_of(name, source) for name in ("<pad>", "</s>", "<unk>"))
        source_special = SpecialIds(pad, pad, end, unknown, unknown)
    named = [about.get(key) or "" for key in ("source_lang", "target_lang")]
    sides = [(models[0], source, source_special), (models[1], target, special)]
    vocabulary = marian_vocabulary(sides, languages)
    if gaps := {piece for piece in source + target if piece.startswith("<unused ")}:
        vocabulary.notes.append(
            f"The vocabulary has no piece for {len(gaps)} of its ids: no text has them."
        )
    return vocabulary._replace(languages=(languages[0] or named[0], languages[1] or named[1]))


def marian_vocabulary(
    sides: Sequence[tuple[bytes, list[str], SpecialIds]], languages: tuple[str, str]
) -> Vocabulary:
    """Returns the vocabulary of a model of one or several targets.

    sides: of source and target the SentencePiece model, the piece of each id and the control ids.
    The tokenizers are the same object if both sides are split and numbered alike.
    """
    (model, pieces, special), target_side = sides
    known = {p[2:-2]: p for p in pieces if p.startswith(">>") and p.endswith("<<") and len(p) > 4}
    first, notes = [], []
    if known and languages[1]:
        first.append(_chosen("target_language", languages[1], known))
    elif known:
        notes.append(
            f"It translates into {len(known)} languages: begin each sentence with one, as "
            f"{next(iter(known.values()))}, or import it with target_language=…"
        )
    source = PieceListTokenizer(model, pieces, first, special)
    model, pieces, special = target_side
    target = PieceListTokenizer(model, pieces, special=special)
    target = source if source.to_bytes() == target.to_bytes() else target
    return Vocabulary((source, target), languages, notes)


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


def _by_id(file: Path, ids: Mapping[str, Any], num_rows: int) -> list[str]:
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


def read_model(file: Path) -> tuple[bytes, list[str]]:
    """Returns a SentencePiece model and its pieces; raises ValueError, which names its file."""
    data = read_file(file)
    with naming(file):
        processor = read_sentencepiece(data)
    return data, [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


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
