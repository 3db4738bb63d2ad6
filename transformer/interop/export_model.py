"""Writes a checkpoint of a run in a format of ours or of another system."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from etils import epath
from etils.epath import PathLike

from transformer.checkpoint.export import export
from transformer.checkpoint.restore import Run, restore
from transformer.files.reading import reason_of
from transformer.files.storage import is_remote, locate
from transformer.interop.check import check_ctranslate2, check_transformers
from transformer.interop.ctranslate2 import save_ctranslate2
from transformer.interop.huggingface import bert, gpt2
from transformer.interop.huggingface.write_marian import save_marian
from transformer.interop.jax_program import export_program
from transformer.interop.portable_model import PortableModel
from transformer.interop.weights.named_arrays import export_parameters, flat_parameters
from transformer.interop.writing import search_notes
from transformer.registry import task_kind

Format = Literal["run", "huggingface", "ctranslate2", "safetensors", "program"]
HUGGINGFACE = {  # by the kind of a task
    "translation": ("MarianMT", save_marian),
    "language_model": ("GPT-2", gpt2.write),
    "masked_lm": ("BERT", bert.write),
    "classification": ("BERT", bert.write),
}


def export_model(
    workdir: PathLike,
    folder: PathLike,
    format: Format = "run",
    checkpoint: str | int = "default",
    *,
    quantization: str = "",
    check: bool = True,
) -> list[str]:
    """Writes one checkpoint of a run to a new folder; returns sentences that say what it did.

    Args:
      workdir, checkpoint: as `transformer.restore` takes them.
      folder: appears when everything is written; it must not exist, or be empty.
      format: "run", a work directory in bfloat16 without optimizer; "huggingface", a folder of the
        library transformers, by the task MarianMT, BERT or GPT-2; "ctranslate2"; "safetensors",
        named arrays; "program", a search that runs with JAX and flatbuffers.
      quantization: of CTranslate2, the number format of matrices, as "int8"; "": float32.
      check: whether random text is translated by both sides, where the other one is installed.

    Raises ValueError if the format cannot hold the run, naming every reason, or for a wrong option.
    """
    if format not in get_args(Format):
        raise ValueError(f"format is one of {', '.join(get_args(Format))}, not {format}.")
    if quantization and format != "ctranslate2":
        raise ValueError(f"quantization={quantization} is for ctranslate2, not for {format}.")
    target = locate(folder)
    if is_remote(target) and format in ("huggingface", "ctranslate2"):
        raise ValueError(f"{format} needs a local folder, not {target}; copy that there.")
    with new_folder(target) as place:
        if format == "run":
            said = [export(workdir, place, checkpoint)]
        else:
            said = _write(restore(workdir, checkpoint), place, format, quantization, check=check)
    return [f"{target}: {said[0]}", *said[1:]]


def _write(
    run: Run, place: epath.Path, format: Format, quantization: str, *, check: bool
) -> list[str]:
    """Writes a folder in a format of others; returns what to say."""
    if format == "safetensors":
        return [export_parameters(run, place)]
    if format == "program":
        return [export_program(run, place)]
    model = PortableModel(run.config, flat_parameters(run.params), run.tokenizers, run.labels)
    if format == "ctranslate2":
        said = [save_ctranslate2(model, Path(place), quantization)]
        said += search_notes(run.config.decoding, "CTranslate2")
        return [*said, check_ctranslate2(run, place)] if check else said
    kind = task_kind(run.config.task)
    if kind not in HUGGINGFACE:
        raise ValueError(f"No model of Hugging Face holds {kind}: use the format safetensors.")
    name, write = HUGGINGFACE[kind]
    said = [f"{name} of Hugging Face", *write(model, Path(place))]
    return [*said, check_transformers(run, place)] if check else said


@contextmanager
def new_folder(target: epath.Path) -> Generator[epath.Path]:
    """Yields the folder to write into, which has the name `target` once the block has ended.

    On gs://, where nothing can be renamed, it is `target` itself: config.json comes last there.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ValueError(f"{target} exists already; name a new folder, or remove it.")
    if is_remote(target):
        yield target
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        options = dict(dir=target.parent, ignore_cleanup_errors=True)
        temporary = TemporaryDirectory(prefix=f".{target.name}.", **options)
    except OSError as error:
        raise ValueError(
            f"{target} cannot be written ({reason_of(error)}); name another."
        ) from None
    with temporary as folder:
        yield epath.Path(folder) / target.name
        os.replace(epath.Path(folder) / target.name, target)
