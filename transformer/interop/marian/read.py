"""Reads translation models as Marian itself writes them, the form in which OPUS-MT has its own.

A package is a folder with *.npz, decoder.yml and vocabularies. Matrices are [in, out] like ours,
vectors [1, n], layers count from 1.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from transformer.config import Config, DataConfig, ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary
from transformer.interop.marian.vocabulary import read_vocabularies
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.settings import (
    SettingsTable,
    name_languages,
    parse_settings,
    read_settings,
)
from transformer.interop.weights.folds import (
    append_row,
    check_rows,
    has_token_rows,
    interleaved_columns,
    permute_array,
)
from transformer.interop.weights.name_table import Entry, Style, read, translation_stacks

SETTINGS = "special:model.yml"  # an array of the .npz: the text of the network's settings
SOFTMAX_TABLES = ("decoder_ff_logit_out_Wt", "decoder_Wemb", "Wemb")  # the first that there is
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
NORM_SETTINGS = (
    "transformer-preprocess",
    "transformer-postprocess",
    "transformer-postprocess-top",
)
NORMS = {", an, ": "post", "n, a, n": "pre"}  # of the three settings, without d, dropout
NAMES = {
    "dim-emb": "d_model",
    "transformer-dim-ffn": "d_ff",
    "transformer-heads": "num_heads",
    "enc-depth": "num_layers",
    "dec-depth": "num_decoder_layers",
    "transformer-ffn-activation": "activation",
}
EXACT_GELU = (1, 12, 1)  # the first version whose gelu is not x·sigmoid(1.702x)
STYLE = Style("W", "b", "scale", "bias", transposed=False, first=1)


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
    model_file = _model_file(folder, decoder)
    tensors = _read_npz(model_file)
    text = tensors.pop(SETTINGS, np.zeros(0, np.int8)).tobytes().rstrip(b"\0")
    settings = parse_settings(text, f"{SETTINGS} in {model_file}", yaml.safe_load)
    model_settings = _model_settings(model_file, settings, decoder)
    languages = source_language, target_language
    vocabulary = read_vocabularies(folder, _vocabulary_files(folder, decoder), languages)
    try:
        config = _config_of(model_settings, decoder, vocabulary)
        params = read(_entries(config.model, settings), _with_one_softmax(tensors, settings))
        tensors.clear()  # so that folding frees each array
        _fold(params, vocabulary, interleaved_columns(config.model.d_model))
    except ValueError as error:
        raise ValueError(f"{model_file}: {error}") from None
    notes = [*vocabulary.notes, *_notes(folder, decoder, config.data)]
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _named_files(folder: Path, names: object) -> list[Path]:
    """Returns the files that a list of decoder.yml names; they lie beside it."""
    names = names if isinstance(names, list) else []
    return [folder / Path(str(name)).name for name in names]


def _model_file(folder: Path, decoder: Mapping[str, Any]) -> Path:
    """Returns the file of the weights: that of decoder.yml, the only one, or the best one."""
    named = _named_files(folder, decoder.get("models"))
    if len(named) > 1:
        raise ValueError(
            f"{folder}/decoder.yml names {len(named)} models that translate together; leave one "
            f"of them in its list."
        )
    files = [file for file in named if file.exists()] or sorted(folder.glob("*.npz"))
    files = [file for file in files if file.name.endswith(BEST)] or files
    if len(files) != 1:
        raise ValueError(
            f"{folder} must hold one .npz file of Marian, or say in decoder.yml which of them is "
            f"the model; it has {len(files)}."
        )
    return files[0]


def _vocabulary_files(folder: Path, decoder: Mapping[str, Any]) -> list[Path]:
    """Returns Marian's vocabularies of source and target."""
    files = _named_files(folder, decoder.get("vocabs"))
    if len(files) != 2:
        raise ValueError(
            f"{folder}/decoder.yml must name two vocabularies, of a source and a target, not "
            f"{len(files)}."
        )
    return files


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception:  # numpy and zipfile raise ten types of error for damage
        raise ValueError(
            f"{path} is not a .npz file of Marian, or only a part of one; copy it again."
        ) from None


def _model_settings(
    file: Path, settings: Mapping[str, Any], decoder: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the settings of `ModelConfig`; raises ValueError, naming all that we cannot honour.

    settings: of the network; decoder: the content of decoder.yml.
    """
    norms = ", ".join(str(settings.get(name, "")).replace("d", "") for name in NORM_SETTINGS)
    all_norms = ", ".join(NORM_SETTINGS)
    possible = POSSIBLE | {
        "transformer-decoder-dim-ffn": (0, settings.get("transformer-dim-ffn")),
        "word-penalty": (0,),
        all_norms: tuple(NORMS),
    }
    table = SettingsTable(NAMES, {"transformer-ffn-activation": "swish"}, possible)
    penalty = decoder.get("word-penalty", 0)
    values = table.read({**settings, "word-penalty": penalty, all_norms: norms}, file)
    if values["activation"] == "gelu" and _version(settings) < EXACT_GELU:
        values["activation"] = "gelu_sigmoid"
    return values | {
        "norm": NORMS[norms],
        "positions": "sinusoidal_tensor2tensor",
        "projection_bias": True,
        "output_bias": True,
        "embedding_norm": "n" in settings.get("transformer-postprocess-emb", ""),
        "embedding_sharing": _sharing(settings),
    }


def _version(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns (1, 12, 42) of "v1.12.42 b7be0e964 2025-05-24"."""
    numbers = re.match(r"v(\d+)\.(\d+)\.(\d+)", str(settings.get("version")))
    return tuple(map(int, numbers.groups())) if numbers else (0, 0, 0)


def _sharing(settings: Mapping[str, Any]) -> str:
    if settings.get("tied-embeddings-all"):
        return "all"
    if not settings.get("tied-embeddings"):
        return "none"
    return "all" if settings.get("tied-embeddings-src") else "target"


def _config_of(
    model_settings: Mapping[str, Any], decoder: Mapping[str, Any], vocabulary: Vocabulary
) -> Config:
    """Returns the configuration of a run with a model of such settings.

    What decoder.yml leaves out is as Marian does it: a beam of 12, scores not divided by the
    length. Raises ValueError where the settings do not fit each other or the vocabularies.
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
    name_languages(config, vocabulary.languages)
    return config.validate()


def _with_one_softmax(
    tensors: Mapping[str, np.ndarray], settings: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the tensors with the softmax as most models have it: a table [V, D] and a bias."""
    tensors = dict(tensors)
    if "decoder_ff_logit_out_W" in tensors:  # [D, V] in old versions
        tensors["decoder_ff_logit_out_Wt"] = tensors.pop("decoder_ff_logit_out_W").T
    if settings.get("output-omit-bias"):
        table = next((tensors[name] for name in SOFTMAX_TABLES if name in tensors), ())
        tensors["decoder_ff_logit_out_b"] = np.zeros(len(table))
    return tensors


def _entries(model: ModelConfig, settings: Mapping[str, Any]) -> list[Entry]:
    """Returns the table of names of a model."""
    sharing = model.embedding_sharing
    if sharing == "all":
        table = [Entry("shared_embedding/table", "Wemb")]
    else:  # one table that both sides look up becomes two copies
        is_one = settings.get("tied-embeddings-src")
        table = [
            Entry("source_embedding/table", "Wemb" if is_one else "encoder_Wemb"),
            Entry("target_embedding/table", "Wemb" if is_one else "decoder_Wemb"),
        ]
    if sharing == "none":
        table.append(Entry("softmax/table", "decoder_ff_logit_out_Wt"))
    table.append(Entry(f"{SOFTMAX[sharing]}/bias", "decoder_ff_logit_out_b"))
    norms = "@_emb_ln_{}_pre", "@_top_ln_{}"
    return table + translation_stacks(model, "@_l#_", _layer(model.norm), *norms, STYLE)


def _layer(norm: str) -> dict[str, str]:
    """Returns the names of the parts of a layer."""
    ln = "ln_{}_pre" if norm == "pre" else "ln_{}"
    names = {
        "feed_forward/inner": "ffn_{}1",
        "feed_forward/outer": "ffn_{}2",
        "feed_forward_residual/LayerNorm_0": f"ffn_ffn_{ln}",
    }
    for ours, theirs in (("self", "self"), ("encoder", "context")):
        names[f"{ours}_residual/LayerNorm_0"] = f"{theirs}_Wo_{ln}"
        for projection in ("query", "key", "value", "output"):
            names[f"{ours}_attention/{projection}"] = f"{theirs}_{{}}{projection[0]}"
    return names


def _fold(params: FlatParams, vocabulary: Vocabulary, columns: np.ndarray) -> None:
    """Changes Marian's arrays to ours in their place, one at a time: only one is there twice."""
    for name, array in params.items():
        array = array if name.endswith(("kernel", "table")) else array.reshape(-1)
        array = append_row(name, array) if has_token_rows(name) else array  # of <pad>
        check_rows(name, array, vocabulary.tokenizers)
        params[name] = permute_array(name, array, columns)


def _notes(folder: Path, decoder: Mapping[str, Any], data: DataConfig) -> list[str]:
    notes = [
        f"Marian does not name the languages; the run says {data.source_language} to "
        f"{data.target_language}.",
        "A row of zeros was added for <pad>, with which the decoder starts.",
    ]
    if not decoder.get("allow-unk"):
        notes.append("Marian never writes <unk>; a search of ours may, and leaves it out of text.")
    if (folder / "preprocess.sh").exists():
        notes.append("preprocess.sh is not run: text is taken as it is.")
    return notes
