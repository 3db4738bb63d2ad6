"""Reads translation models as Marian itself writes them, the form in which OPUS-MT has its own.

A package is a folder with *.npz, decoder.yml and vocabularies: vocab.spm, or *.vocab.yml beside two
.spm files. Matrices are [in, out] like ours, vectors [1, n], layers count from 1.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transformer.files.reading import read_file
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_vocabulary import (
    id_of,
    marian_vocabulary,
    read_model,
)
from transformer.interop.portable_model import SOFTMAX, PortableModel
from transformer.interop.settings import (
    Setting,
    SettingsTable,
    naming,
    parse_settings,
    read_settings,
    translation_config,
)
from transformer.interop.weights import folds
from transformer.interop.weights.name_table import Style, array_names, entries, read
from transformer.special_tokens import SpecialIds

SETTINGS = "special:model.yml"  # an array of the .npz: the text of the network's settings
LOGITS = "decoder_ff_logit_out"
ENDS = "", "-all", "-src"  # of tied-embeddings
BEST = ".best-perplexity.npz"
# The values that have a counterpart here. A model that does not name a setting was written by a
# version without it, and is as the first value says.
POSSIBLE: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "input-types": ([], ["sequence", "sequence"]),
    "lemma-dim-emb": (0,),
    "right-left": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-disable-position-embeddings": (False,),
    "transformer-ffn-activation": ("swish", "relu", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-projection": (False,),
    "transformer-pool": (False,),
    "transformer-postprocess-emb": ("d", "", "n", "nd"),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": (False,),
    "ulr": (False,),
}
NORM_SETTINGS = [
    f"transformer-{place}" for place in ("preprocess", "postprocess", "postprocess-top")
]
NORMS = {", an, ": "post", "n, a, n": "pre"}  # of the three settings, without d, dropout
SIZES = {
    "dim-emb": Setting("d_model"),
    "transformer-dim-ffn": Setting("d_ff"),
    "transformer-heads": Setting("num_heads"),
    "enc-depth": Setting("num_layers"),
    "dec-depth": Setting("num_decoder_layers"),
    "transformer-ffn-activation": Setting("activation", "swish"),
}
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
LETTERS: dict[str, str] = dict(
    zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True)
)
COMPLEX_KEY = re.compile(rb"^\? (.*)\n: ", re.MULTILINE)
EXACT_GELU = (1, 12, 1)  # the first version whose gelu is not x·sigmoid(1.702x)
STYLE = Style("W", "b", "scale", "bias", transposed=False, first=1)
NAMES = {  # ~ stands for _pre if normalisation comes first
    "shared_embedding/table": "Wemb",
    "source_embedding/table": "encoder_Wemb",
    "target_embedding/table": "decoder_Wemb",
    "softmax/table": f"{LOGITS}_Wt",
    **{f"{table}/bias": f"{LOGITS}_b" for table in SOFTMAX.values()},
    "source_norm": "encoder_emb_ln_{}_pre",
    "target_norm": "decoder_emb_ln_{}_pre",
    "layer": "@_l#_",
    "self_attention/query": "self_{}q",
    "self_attention/key": "self_{}k",
    "self_attention/value": "self_{}v",
    "self_attention/output": "self_{}o",
    "self_residual/LayerNorm_0": "self_Wo_ln_{}~",
    "encoder_attention/query": "context_{}q",
    "encoder_attention/key": "context_{}k",
    "encoder_attention/value": "context_{}v",
    "encoder_attention/output": "context_{}o",
    "encoder_residual/LayerNorm_0": "context_Wo_ln_{}~",
    "feed_forward/inner": "ffn_{}1",
    "feed_forward/outer": "ffn_{}2",
    "feed_forward_residual/LayerNorm_0": "ffn_ffn_ln_{}~",
    "encoder/last_norm": "encoder_top_ln_{}",
    "decoder/last_norm": "decoder_top_ln_{}",
}


def read_marian(
    folder: PathLike, source_language: str = "", target_language: str = ""
) -> PortableModel:
    """Reads a package. Raises ValueError for a damaged one, and for a model that we cannot hold.

    target_language: of a model that translates into several, "deu" where it has ">>deu<<".
    Marian has neither <pad> nor <s>: one token more, with a row of zeros, starts the decoder, and
    its bias keeps a search from writing it.
    """
    folder = Path(folder)
    decoder = read_settings(folder, "decoder.yml")
    model_file, vocabulary_files = _files(folder, decoder)
    sides = map(_read_side, [folder] * 2, vocabulary_files, ("source", "target"))
    vocabulary = marian_vocabulary([*sides], (source_language, target_language))
    try:
        with np.load(model_file, allow_pickle=False) as archive:
            tensors = {name: archive[name] for name in archive.files}
    except Exception:  # numpy and zipfile raise ten types of error for damage
        raise ValueError(f"{model_file} is not a .npz file of Marian, or is damaged.") from None
    text = tensors.pop(SETTINGS, np.zeros(0, np.int8)).tobytes().rstrip(b"\0")
    with naming(model_file):
        settings = parse_settings(text, SETTINGS, is_json=False)
        tied, all_tied, source_tied = (settings.get(f"tied-embeddings{end}") for end in ENDS)
        config = translation_config(
            _model_settings(settings, decoder),
            vocabulary,
            is_tied=bool(all_tied or tied),
            is_shared=bool(all_tied or source_tied),
            beam_size=decoder.get("beam-size", 12),  # as Marian does it by itself
            alpha=float(decoder.get("normalize", 0)),
        ).validate()
        before = "_pre" if config.model.norm == "pre" else ""
        names = {ours: name.replace("~", before) for ours, name in NAMES.items()}
        table = entries(array_names(config, vocabulary.tokenizers), names, STYLE)
        if f"{LOGITS}_W" in tensors:  # [D, V] in old versions
            tensors[f"{LOGITS}_Wt"] = tensors.pop(f"{LOGITS}_W").T
        if "Wemb" in tensors and source_tied and config.model.embedding_sharing == "none":
            tensors["encoder_Wemb"] = tensors["decoder_Wemb"] = tensors.pop("Wemb")
        absent = (f"{LOGITS}_b",) if settings.get("output-omit-bias") else ()
        params = read(table, tensors, absent=absent)
        tensors.clear()  # so that each array is freed when its change is there
        columns = folds.interleaved_columns(config.model.d_model)
        for name, array in params.items():
            array = array if name.endswith(("kernel", "table")) else array.reshape(-1)
            array = folds.append_row(name, array) if folds.has_token_rows(name) else array
            params[name] = folds.permute_columns(name, array, columns)
    data, notes = config.data, vocabulary.notes
    pair = f"{data.source_language} to {data.target_language}"
    notes.append(f"Marian does not name the languages; the run says {pair}.")
    notes.append("A row of zeros was added for <pad>, with which the decoder starts.")
    if not decoder.get("allow-unk"):
        notes.append("Marian never writes <unk>; a search of ours may, and leaves it out of text.")
    if (folder / "preprocess.sh").exists():
        notes.append("preprocess.sh is not run: text is taken as it is.")
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _files(folder: Path, decoder: Mapping[str, Any]) -> tuple[Path, list[Path]]:
    """Returns (the weights: those of decoder.yml, the only or the best ones; the vocabularies)."""
    lists = (decoder.get(name) for name in ("models", "vocabs"))
    models, vocabularies = (
        [folder / Path(str(name)).name for name in names] if isinstance(names, list) else []
        for names in lists
    )
    if len(vocabularies) != 2 or len(models) > 1:
        raise ValueError(f"{folder}/decoder.yml must name one model with two vocabularies.")
    files = [file for file in models if file.exists()] or sorted(folder.glob("*.npz"))
    files = [file for file in files if file.name.endswith(BEST)] or files
    if len(files) != 1:
        raise ValueError(f"{folder} has {len(files)} .npz files; say in decoder.yml which to read.")
    return files[0], vocabularies


def _model_settings(settings: Mapping[str, Any], decoder: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of `ModelConfig`; raises ValueError, naming all without counterpart."""
    norms = ", ".join(str(settings.get(name, "")).replace("d", "") for name in NORM_SETTINGS)
    all_norms = ", ".join(NORM_SETTINGS)
    possible = POSSIBLE | {
        "transformer-decoder-dim-ffn": (0, settings.get("transformer-dim-ffn")),
        "word-penalty": (0,),
        all_norms: tuple(NORMS),
    }
    given = {**settings, "word-penalty": decoder.get("word-penalty"), all_norms: norms}
    values = SettingsTable(SIZES, possible).read(given, SETTINGS)
    # As "v1.12.42 b7be0e964 2025-05-24".
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(settings.get("version")))
    is_exact = version and tuple(map(int, version.groups())) >= EXACT_GELU
    if values["activation"] == "gelu" and not is_exact:
        values["activation"] = "gelu_sigmoid"
    has_norm = "n" in settings.get("transformer-postprocess-emb", "")
    positions = "sinusoidal_tensor2tensor"
    return values | {"norm": NORMS[norms], "positions": positions, "embedding_norm": has_norm}


def _read_side(folder: Path, file: Path, side: str) -> tuple[bytes, list[str], SpecialIds]:
    """Returns the SentencePiece model of a language, the piece of each id, and the control ids.

    Neither <pad> nor <s> is there: one more piece stands for both, as in Hugging Face's models.
    """
    is_model = file.suffix == ".spm"
    model, pieces = read_model(file if is_model else folder / f"{side}.spm")
    content = b"" if is_model else read_file(file)
    with naming(file):
        pieces = pieces if is_model else read_vocab_yml(content)
        end, unknown = (id_of(name, pieces) for name in ("</s>", "<unk>"))
    special = SpecialIds(len(pieces), len(pieces), end, unknown, unknown)
    return model, [*pieces, "<pad>"], special


def read_vocab_yml(data: bytes) -> list[str]:
    """Returns the pieces of a Marian vocabulary in the order of their ids.

    The file is not YAML as the standard has it: keys hold raw U+0085, and bytes that are not UTF-8.
    Only the line feed ends a line. Raises ValueError if it is damaged.
    """
    pieces: dict[int, str] = {}
    try:
        lines = [*filter(None, COMPLEX_KEY.sub(rb"\1: ", data).split(b"\n"))]
        for line in lines:
            key, number = line.rsplit(b":", 1)
            text = _unquoted(key.decode(errors="surrogateescape"))
            # Invalid bytes become r"\xc1\xbf": yaml-cpp writes DEL so, and reads it as no DEL.
            text = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
            pieces[int(number)] = text
    except ValueError:
        raise ValueError("This is not a vocabulary of Marian; restore the file.") from None
    if not pieces or sorted(pieces) != list(range(len(lines))):
        raise ValueError("The ids of the vocabulary are not 0, 1, 2, …; restore the file.")
    return [pieces[i] for i in range(len(pieces))]


def _unquoted(key: str) -> str:
    r"""Returns the text of a key: "\"\ufeff\"" in double quotes has escapes, 'it''s' has none."""
    if len(key) > 1 and key[0] == key[-1] == '"':
        return ESCAPE.sub(_unescaped, key[1:-1])
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key


def _unescaped(match: re.Match[str]) -> str:
    if code := match[1] or match[2] or match[3]:
        return chr(int(code, 16))
    return LETTERS.get(match[4], match[4])
