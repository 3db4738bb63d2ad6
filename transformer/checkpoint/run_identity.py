"""What makes the files of a work directory one run: every checkpoint notes it.

Parameters mean something only with the configuration, the vocabularies and the classes that they
were trained with. A checkpoint notes them when it is saved, and the training text besides; whatever
reads the checkpoint compares the notes with what lies beside it now.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from etils import epath

from transformer.config import Config
from transformer.reading import read_file

# Settings on which the outputs of a checkpoint depend, by the beginnings of their names.
OF_OUTPUTS = ("task", "model.", "tokenizer.", "data.", "training.lora_rank")
# The stems of the files of a run that restoring reads besides config.json and a checkpoint.
VOCABULARY_FILES = {"tokenizer", "source_tokenizer", "target_tokenizer", "classes"}
SETTINGS = {setting.name: setting for setting in Config.settings()}


class OtherRunError(ValueError):
    """A checkpoint belongs to another run than the files beside it."""


@dataclass(frozen=True)
class RunIdentity:
    """The files and settings that a checkpoint belongs to.

    folder: the work directory. config: its configuration. text: a checksum of the training text;
    None where it is not read.
    """

    folder: epath.Path
    config: Config
    text: int | None = None

    def notes(self) -> dict[str, Any]:
        """Returns what a checkpoint notes, as JSON: every setting, checksums of files and text."""
        return {"settings": self.config.values(), "files": self._checksums, "text": self.text}

    def check(self, noted: Mapping[str, Any], *, resumes: bool) -> None:
        """Raises OtherRunError if a checkpoint with these notes is not one of this run.

        resumes: whether training goes on from it, for which more settings have to be the same.
        """
        for name, there, here in self._changed_settings(noted):
            if not resumes and not name.startswith(OF_OUTPUTS):
                continue
            raise OtherRunError(
                f"{self.folder / 'config.json'} has {name}={here!r}, but the checkpoints were "
                f"trained with {there!r}: put back the former value, or give the checkpoints their "
                f"own config.json."
            )
        here = self._checksums
        for name in here.keys() - noted["files"].keys():
            raise OtherRunError(
                f"{self.folder / name} was not there when the checkpoints were trained: remove it, "
                f"or put it elsewhere."
            )
        for name, checksum in noted["files"].items():
            if here.get(name) != checksum:
                what = "is not the file" if name in here else "is missing: the file"
                raise OtherRunError(
                    f"{self.folder / name} {what} that the checkpoints were trained with: put the "
                    f"former one back; no other vocabulary or order of classes fits them."
                )

    def changed_decoding(self, noted: Mapping[str, Any]) -> str:
        """Returns which settings of the search differ from those of the notes, or ""."""
        return "; ".join(
            f"{name} is {here!r} in config.json and was {there!r} when the checkpoint was saved"
            for name, there, here in self._pairs(noted)
            if name.startswith("decoding.") and SETTINGS[name].changes_result and there != here
        )

    def _changed_settings(self, noted: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Yields (name, noted value, value now) of settings that a run may not change.

        Paths may: files are moved, and the training text is compared by its content.
        """
        for name, there, here in self._pairs(noted):
            setting = SETTINGS[name]
            if not (setting.resumable or setting.is_path or there == here):
                yield name, there, here

    def _pairs(self, noted: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        values = self.config.values()
        for name, there in noted["settings"].items():
            if name in values:  # else a setting that this version no longer has
                yield name, there, values[name]

    @cached_property
    def _checksums(self) -> dict[str, str]:
        """The SHA-256 of each vocabulary file by its name, as they were when first asked for."""
        files = sorted(file for file in self.folder.iterdir() if file.stem in VOCABULARY_FILES)
        return {file.name: hashlib.sha256(read_file(file)).hexdigest() for file in files}
