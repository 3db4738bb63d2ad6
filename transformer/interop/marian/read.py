"""Reads translation models as Marian itself writes them, the form in which OPUS-MT has its own.

A package is a folder with *.npz, decoder.yml and vocabularies. Matrices are [in, out] like ours,
vectors [1, n], layers count from 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from transformer.config import Config, DataConfig
from transformer.files.storage import PathLike
from transformer.interop.marian.settings import check_settings, config_of
from transformer.interop.marian.vocabulary import read_vocabularies
from transformer.interop.portable_model import SOFTMAX, FlatParams, PortableModel
from transformer.interop.weights.folds import interleaved_columns, permute_array, reorder_vocabulary
from transformer.interop.weights.name_table import Entry, read

SETTINGS = "special:model.yml"  # an array of the .npz: the text of the network's settings
SOFTMAX_TABLES = ("decoder_ff_logit_out_Wt", "decoder_Wemb", "Wemb")  # the first that there is
BEST = ".best-perplexity.npz"


def read_marian(
    folder: PathLike, source_language: str = "", target_language: str = ""
) -> PortableModel:
    """Reads a package. Raises ValueError for a damaged one, and for a model that we cannot hold.

    target_language: of a model that translates into several, "deu" where it has ">>deu<<".
    Marian has neither <pad> nor <s>: they get rows of zeros, with which its decoder starts, and a
    bias that keeps a search from writing them.
    """
    folder = Path(folder)
    decoder = _read_decoder(folder / "decoder.yml")
    model_file = _model_file(folder, decoder)
    tensors = _read_npz(model_file)
    settings = _network_settings(model_file, tensors.pop(SETTINGS, None))
    check_settings(model_file, settings, decoder)
    languages = source_language, target_language
    vocabulary = read_vocabularies(folder, _vocabulary_files(folder, decoder), languages)
    try:
        config = config_of(settings, decoder, vocabulary)
        params = read([*_entries(config, settings)], _with_one_softmax(tensors, settings))
        tensors.clear()  # so that folding frees each array
        _fold(params, vocabulary.orders, interleaved_columns(config.model.d_model))
    except ValueError as error:
        raise ValueError(f"{model_file}: {error}") from None
    notes = [*vocabulary.notes, *_notes(folder, decoder, config.data)]
    return PortableModel(config, params, vocabulary.tokenizers, notes=notes)


def _read_decoder(path: Path) -> dict[str, Any]:
    """Returns the settings of decoder.yml: the files, and what Marian searches with."""
    try:
        decoder = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError:
        decoder = None
    if not isinstance(decoder, dict):
        raise ValueError(f"{path} holds no settings of Marian; restore the file.")
    return decoder


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


def _network_settings(path: Path, array: np.ndarray | None) -> dict[str, Any]:
    """Returns the settings of the network, which the file holds as int8 that end in zeros."""
    text = b"" if array is None else array.tobytes().rstrip(b"\0")
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{path} lacks {SETTINGS}, so it is no model that Marian wrote.")
    return settings


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


def _entries(config: Config, settings: Mapping[str, Any]) -> Iterator[Entry]:
    """Yields the table of names of a model."""
    model = config.model
    yield from _embedding_entries(model.embedding_sharing, settings)
    depths = {"encoder": model.num_layers, "decoder": model.num_decoder_layers}
    for (stack, depth), side in zip(depths.items(), ("source", "target"), strict=True):
        for layer in range(depth):
            ours, theirs = f"{stack}/layer_{layer}", f"{stack}_l{layer + 1}"
            yield from _layer_entries(ours, theirs, model.norm, has_context=stack == "decoder")
        if model.norm == "pre":
            yield from _norm_entries(f"{stack}/last_norm", f"{stack}_top_ln")
        if model.embedding_norm:
            yield from _norm_entries(f"{side}_norm", f"{stack}_emb_ln", "_pre")


def _embedding_entries(sharing: str, settings: Mapping[str, Any]) -> Iterator[Entry]:
    if sharing == "all":
        yield Entry("shared_embedding/table", "Wemb")
    else:  # one table that both sides look up becomes two copies
        is_one = settings.get("tied-embeddings-src")
        yield Entry("source_embedding/table", "Wemb" if is_one else "encoder_Wemb")
        yield Entry("target_embedding/table", "Wemb" if is_one else "decoder_Wemb")
    if sharing == "none":
        yield Entry("softmax/table", "decoder_ff_logit_out_Wt")
    yield Entry(f"{SOFTMAX[sharing]}/bias", "decoder_ff_logit_out_b")


def _layer_entries(ours: str, theirs: str, norm: str, *, has_context: bool) -> Iterator[Entry]:
    suffix = "_pre" if norm == "pre" else ""
    attentions = {"self": "self", "encoder": "context"} if has_context else {"self": "self"}
    for name, scope in attentions.items():
        for projection in ("query", "key", "value", "output"):
            array, letter = f"{ours}/{name}_attention/{projection}", projection[0]
            yield Entry(f"{array}/kernel", f"{theirs}_{scope}_W{letter}")
            yield Entry(f"{array}/bias", f"{theirs}_{scope}_b{letter}")
        residual = f"{ours}/{name}_residual/LayerNorm_0"
        yield from _norm_entries(residual, f"{theirs}_{scope}_Wo_ln", suffix)
    for number, name in enumerate(("inner", "outer"), 1):
        yield Entry(f"{ours}/feed_forward/{name}/kernel", f"{theirs}_ffn_W{number}")
        yield Entry(f"{ours}/feed_forward/{name}/bias", f"{theirs}_ffn_b{number}")
    residual = f"{ours}/feed_forward_residual/LayerNorm_0"
    yield from _norm_entries(residual, f"{theirs}_ffn_ffn_ln", suffix)


def _norm_entries(ours: str, theirs: str, suffix: str = "") -> Iterator[Entry]:
    yield Entry(f"{ours}/scale", f"{theirs}_scale{suffix}")
    yield Entry(f"{ours}/bias", f"{theirs}_bias{suffix}")


def _fold(params: FlatParams, orders: Sequence[Sequence[int]], columns: np.ndarray) -> None:
    """Changes Marian's arrays to ours in their place, one at a time: only one is there twice.

    orders: of source and target, for each of our ids Marian's; -1 for a new one.
    """
    for name, array in params.items():
        array = array if name.endswith(("kernel", "table")) else array.reshape(-1)
        array = reorder_vocabulary(name, array, orders)
        params[name] = permute_array(name, array, columns)


def _notes(folder: Path, decoder: Mapping[str, Any], data: DataConfig) -> list[str]:
    notes = [
        f"Marian does not name the languages; the run says {data.source_language} to "
        f"{data.target_language}.",
        "Rows of zeros were added for <pad> and <s>, which Marian does not have.",
    ]
    if not decoder.get("allow-unk"):
        notes.append("Marian never writes <unk>; a search of ours may, and leaves it out of text.")
    if (folder / "preprocess.sh").exists():
        notes.append("preprocess.sh is not run: text is taken as it is.")
    return notes
