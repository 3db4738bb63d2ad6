"""Reads translation models as Marian itself writes them, the form in which OPUS-MT has its own.

A package is a folder with *.npz, decoder.yml and vocabularies: vocab.spm, or *.vocab.yml beside two
.spm files. Matrices are [in, out] like ours, vectors [1, n], layers count from 1.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from transformer.config import Config, ModelConfig
from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import read_sentencepiece
from transformer.files.reading import read_file
from transformer.files.storage import PathLike
from transformer.interop import settings as foreign
from transformer.interop.huggingface import seq2seq_vocabulary
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.settings import naming
from transformer.interop.weights import folds
from transformer.interop.weights.name_table import Entry, Style, read, translation_stacks
from transformer.special_tokens import SpecialIds

SETTINGS = "special:model.yml"  # an array of the .npz: the text of the network's settings
LOGITS = "decoder_ff_logit_out"
SOFTMAX_TABLES = (f"{LOGITS}_Wt", "decoder_Wemb", "Wemb")  # the first that there is
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
NAMES = {
    "dim-emb": "d_model",
    "transformer-dim-ffn": "d_ff",
    "transformer-heads": "num_heads",
    "enc-depth": "num_layers",
    "dec-depth": "num_decoder_layers",
    "transformer-ffn-activation": "activation",
}
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
LETTERS: dict[str, str] = dict(
    zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True)
)
COMPLEX_KEY = re.compile(rb"^\? (.*)\n: ", re.MULTILINE)
EXACT_GELU = (1, 12, 1)  # the first version whose gelu is not x·sigmoid(1.702x)
STYLE = Style("W", "b", "scale", "bias", transposed=False, first=1)
ATTENTION = {
    f"{ours}_attention/{name}": f"{theirs}_{{}}{name[0]}"
    for ours, theirs in (("self", "self"), ("encoder", "context"))
    for name in ("query", "key", "value", "output")
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
    decoder = foreign.read_settings(folder, "decoder.yml")
    model_file, vocabularies = _files(folder, decoder)
    try:
        with np.load(model_file, allow_pickle=False) as archive:
            tensors = {name: archive[name] for name in archive.files}
    except Exception:  # numpy and zipfile raise ten types of error for damage
        raise ValueError(f"{model_file} is not a .npz file of Marian, or is damaged.") from None
    text = tensors.pop(SETTINGS, np.zeros(0, np.int8)).tobytes().rstrip(b"\0")
    settings = foreign.parse_settings(text, f"{SETTINGS} in {model_file}", yaml.safe_load)
    model_settings = _model_settings(model_file, settings, decoder)
    languages = source_language, target_language
    vocabulary = read_vocabularies(folder, vocabularies, languages)
    with naming(model_file):
        config = _config_of(model_settings, decoder, vocabulary)
        params = read(_entries(config.model), _as_usual(tensors, settings, config.model))
        tensors.clear()  # so that folding frees each array
        _fold(params, vocabulary, folds.interleaved_columns(config.model.d_model))
    data, notes = config.data, vocabulary.notes
    notes += [
        f"Marian does not name the languages; the run says {data.source_language} to "
        f"{data.target_language}.",
        "A row of zeros was added for <pad>, with which the decoder starts.",
    ]
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


def _model_settings(
    file: Path, settings: Mapping[str, Any], decoder: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings of `ModelConfig`; raises ValueError, naming all without counterpart."""
    norms = ", ".join(str(settings.get(name, "")).replace("d", "") for name in NORM_SETTINGS)
    all_norms = ", ".join(NORM_SETTINGS)
    possible = POSSIBLE | {
        "transformer-decoder-dim-ffn": (0, settings.get("transformer-dim-ffn")),
        "word-penalty": (0,),
        all_norms: tuple(NORMS),
    }
    table = foreign.SettingsTable(NAMES, {"transformer-ffn-activation": "swish"}, possible)
    penalty = decoder.get("word-penalty", 0)
    values = table.read({**settings, "word-penalty": penalty, all_norms: norms}, file)
    # As "v1.12.42 b7be0e964 2025-05-24".
    version = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(settings.get("version")))
    is_exact = version and tuple(map(int, version.groups())) >= EXACT_GELU
    if values["activation"] == "gelu" and not is_exact:
        values["activation"] = "gelu_sigmoid"
    tied, all_tied, source_tied = (settings.get(f"tied-embeddings{end}") for end in ENDS)
    is_shared = all_tied or (tied and source_tied)
    return values | {
        "norm": NORMS[norms],
        "positions": "sinusoidal_tensor2tensor",
        "projection_bias": True,
        "output_bias": True,
        "embedding_norm": "n" in settings.get("transformer-postprocess-emb", ""),
        "embedding_sharing": "all" if is_shared else "target" if tied else "none",
    }


def _config_of(
    model_settings: Mapping[str, Any], decoder: Mapping[str, Any], vocabulary: Vocabulary
) -> Config:
    """Returns the configuration of a run with a model of such settings.

    What decoder.yml leaves out is as Marian does it: a beam of 12, scores not divided by lengths.
    """
    source_pieces, target_pieces = (t.pieces(range(t.vocab_size)) for t in vocabulary.tokenizers)
    shared = source_pieces == target_pieces  # however text is split into them
    if model_settings["embedding_sharing"] == "all" and not shared:
        raise ValueError("tied-embeddings-all needs one vocabulary, but decoder.yml names two.")
    config = Config(model=ModelConfig(**model_settings))
    config.tokenizer.kind, config.tokenizer.shared = "imported", shared
    config.decoding.beam_size = decoder.get("beam-size", 12)
    config.decoding.length_penalty = "power"
    config.decoding.alpha = float(decoder.get("normalize", 0))
    foreign.name_languages(config, vocabulary.languages)
    return config.validate()


def _as_usual(
    tensors: Mapping[str, np.ndarray], settings: Mapping[str, Any], model: ModelConfig
) -> dict[str, np.ndarray]:
    """Returns the tensors as most models have them.

    The softmax has a table [V, D] and a bias; one table that both sides look up becomes two.
    """
    tensors = dict(tensors)
    if f"{LOGITS}_W" in tensors:  # [D, V] in old versions
        tensors[f"{LOGITS}_Wt"] = tensors.pop(f"{LOGITS}_W").T
    if settings.get("output-omit-bias"):
        table = next((tensors[name] for name in SOFTMAX_TABLES if name in tensors), ())
        tensors[f"{LOGITS}_b"] = np.zeros(len(table))
    has_one = settings.get("tied-embeddings-src") and model.embedding_sharing == "none"
    if has_one and "Wemb" in tensors:
        tensors["encoder_Wemb"] = tensors["decoder_Wemb"] = tensors.pop("Wemb")
    return tensors


def _entries(model: ModelConfig) -> list[Entry]:
    """Returns the table of names of a model."""
    sharing, before = model.embedding_sharing, "_pre" if model.norm == "pre" else ""
    if sharing == "all":
        table = [Entry("shared_embedding/table", "Wemb")]
    else:
        sides = ("source", "encoder"), ("target", "decoder")
        table = [Entry(f"{side}_embedding/table", f"{stack}_Wemb") for side, stack in sides]
    if sharing == "none":
        table.append(Entry("softmax/table", f"{LOGITS}_Wt"))
    table.append(Entry(f"{SOFTMAX[sharing]}/bias", f"{LOGITS}_b"))
    layer = ATTENTION | {
        "self_residual/LayerNorm_0": f"self_Wo_ln_{{}}{before}",
        "encoder_residual/LayerNorm_0": f"context_Wo_ln_{{}}{before}",
        "feed_forward/inner": "ffn_{}1",
        "feed_forward/outer": "ffn_{}2",
        "feed_forward_residual/LayerNorm_0": f"ffn_ffn_ln_{{}}{before}",
    }
    return table + translation_stacks(
        model, "@_l#_", layer, "@_emb_ln_{}_pre", "@_top_ln_{}", STYLE
    )


def _fold(params: FlatParams, vocabulary: Vocabulary, columns: np.ndarray) -> None:
    """Changes Marian's arrays to ours in their place, one at a time: only one is there twice."""
    for name, array in params.items():
        array = array if name.endswith(("kernel", "table")) else array.reshape(-1)
        array = folds.append_row(name, array) if folds.has_token_rows(name) else array  # of <pad>
        folds.check_rows(name, array, vocabulary.tokenizers)
        params[name] = folds.permute_columns(name, array, columns)


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


def read_vocabularies(
    folder: Path, files: Sequence[Path], languages: tuple[str, str]
) -> Vocabulary:
    """Reads both vocabularies of a package; files: those of source and target.

    The tokenizers are the same object if both sides are split and numbered alike. Raises
    ValueError, naming the file, for one that is missing or damaged, and for a language that the
    model does not have.
    """
    tokenizers, notes = [], []
    for file, side in zip(files, ("source", "target"), strict=True):
        is_model = file.suffix == ".spm"
        model = seq2seq_vocabulary.read_model(file if is_model else folder / f"{side}.spm")
        content = b"" if is_model else read_file(file)
        with naming(file):
            processor = read_sentencepiece(model)
            pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
            pieces = pieces if is_model else read_vocab_yml(content)
            first: list[str] = []
            if side == "source":
                first, notes = seq2seq_vocabulary.first_of_marian(languages[1], pieces)
            # Neither <pad> nor <s>: one more piece stands for both, as in Hugging Face's models.
            end, unknown = (seq2seq_vocabulary.id_of(name, pieces) for name in ("</s>", "<unk>"))
            special = SpecialIds(len(pieces), len(pieces), end, unknown, unknown)
            tokenizers.append(PieceListTokenizer(model, [*pieces, "<pad>"], first, special))
    source, target = tokenizers
    target = source if source.to_bytes() == target.to_bytes() else target
    return Vocabulary((source, target), languages, notes)
