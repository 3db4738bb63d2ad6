"""What a checkpoint holds beside its arrays, as JSON: all else that restoring needs, a checksum.

Parameters mean something only with the configuration, the vocabularies and the classes that they
were trained with. A checkpoint therefore holds these too, and nothing beside it has to fit it.
"""

import json
import warnings
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from etils import epath

import transformer
from transformer.config import Config
from transformer.files.reading import read_file
from transformer.workdir import WorkDir

FORMAT = 1
FILES = {"tokenizer", "source_tokenizer", "target_tokenizer", "classes"}  # without their suffixes
SETTINGS = {known.name: known for known in Config.settings()}
NO_PATHS = {name for name, known in SETTINGS.items() if not known.is_path}


class NewerFormatError(ValueError):
    """A checkpoint was written by a newer version, in a format that this one does not know."""


def make_about(step: int, **notes: Any) -> dict[str, Any]:
    """Returns the JSON of a step: format, version and checksum beside the notes."""
    about = {"format": FORMAT, "version": transformer.__version__, "step": step, **notes}
    return about | {"checksum": _checksum(about)}


def check_about(step: int, about: Mapping[str, Any]) -> None:
    """Raises ValueError unless the JSON is whole and that of this step.

    Raises NewerFormatError if it was written in a later format, whose checksum is the same.
    """
    if about["checksum"] != _checksum({k: v for k, v in about.items() if k != "checksum"}):
        raise ValueError("its notes (about/metadata) are not those that were saved")
    if about["step"] != step:
        raise ValueError(f"its folder holds the checkpoint of step {about['step']}")
    if about["format"] > FORMAT:
        raise NewerFormatError(
            f"it was written by version {about['version']} of transformer, in a format that this "
            f"version, {transformer.__version__}, does not know; install that version"
        )


def _checksum(about: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(about, sort_keys=True).encode())


def describe_run(folder: epath.Path, config: Config, text: int | None = None) -> dict[str, Any]:
    """Returns the notes on a run: its settings, its vocabularies and classes, a checksum of `text`.

    folder: the work directory, which holds the files already. text: None if nothing is compared.
    """
    files = sorted(file for file in folder.iterdir() if file.stem in FILES)
    contents = {file.name: b64encode(read_file(file)).decode() for file in files}
    return {"settings": config.values(), "files": contents, "text": text}


def files_of(about: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the files of the vocabularies and the classes, by their names."""
    return {
        name: b64decode(content)
        for name, content in about["files"].items()
        if PurePath(name).stem in FILES and PurePath(name).name == name  # else of a stranger
    }


def changed_settings(about: Mapping[str, Any], config: Config) -> dict[str, tuple[Any, Any]]:
    """Returns {name: (value in the checkpoint, value in `config`)} of the settings that differ.

    Paths may differ, as files are moved. A setting that this version no longer has is left out.
    """
    saved = {name: value for name, value in about["settings"].items() if name in NO_PATHS}
    return config.with_values(saved).differences(config)


def as_trained(config: Config, about: Mapping[str, Any], folder: epath.Path) -> Config:
    """Returns the configuration of a checkpoint, given that of config.json.

    Settings that a run may change, as those of the search, are read in config.json; it warns where
    the search was another one when the checkpoint was saved. folder: the work directory.
    """
    fixed, search = {}, []
    for name, (there, here) in changed_settings(about, config).items():
        if not SETTINGS[name].resumable:
            fixed[name] = there
        elif name.startswith("decoding.") and SETTINGS[name].changes_result:
            search.append(f"{name} is {here!r} in config.json and was {there!r}")
    if search:
        said = f"{folder}: {'; '.join(search)} when the checkpoint was saved."
        warnings.warn(said, stacklevel=3)
    return config.with_values(fixed).validate()


def describe_records(workdir: WorkDir, count: int | None = None) -> dict[str, int]:
    """Returns number and checksum of the first `count` lines of metrics.jsonl; None: of all."""
    file = workdir / "metrics.jsonl"
    lines = read_file(file).splitlines()[:count] if file.is_file() else []
    return {"records": len(lines), "records_crc": zlib.crc32(b"\n".join(lines))}


def lost_records(workdir: WorkDir, about: Mapping[str, Any]) -> str:
    """Returns a sentence if records of metrics.jsonl are lost that a checkpoint counted; or ""."""
    trained = about.get("trained", {})
    num = int(trained.get("records", 0))
    if not num or describe_records(workdir, num).items() <= trained.items():
        return ""
    return (
        f"{workdir / 'metrics.jsonl'} no longer holds the {num:,} records that it had at step "
        f"{about['step']:,}: the best checkpoint, curves and patience go by those that are there"
    )
