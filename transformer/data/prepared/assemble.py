"""Puts the parts of a corpus together."""

import io
import json
import os
import pathlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from etils import epath

from transformer import storage
from transformer.console import counted
from transformer.data.held_out import HELD_OUT
from transformer.data.left_out import LEFT_OUT, LeftOutPair, choose_of_each, format_sample
from transformer.data.overlap import EvaluationSets, Overlap
from transformer.data.prepared.corpus import (
    CHUNK,
    HEADER,
    header_checksum,
    mark_verified,
)
from transformer.data.prepared.duplicates import Decode, leave_out_repeated
from transformer.data.prepared.key import FORMAT
from transformer.data.prepared.parts import (
    PartFacts,
    read_facts,
    read_part,
    read_sample,
    total_left_out,
)
from transformer.data.training_text import TrainingText
from transformer.folders import remove_folder

LENGTHS: dict[str, Callable[[PartFacts], int]] = {  # of each array of a part
    "source_ids": lambda part: part.num_ids[0],
    "target_ids": lambda part: part.num_ids[1],
    "source_lengths": lambda part: part.num_pairs,
    "target_lengths": lambda part: part.num_pairs,
}


def assemble(
    folder: epath.Path,
    parts: epath.Path,
    num_parts: int,
    text: TrainingText,
    made_of: dict[str, Any],
    check: Callable[[list[PartFacts]], None],
    decode: Decode,
) -> None:
    """Writes the files of a prepared corpus from its parts, the header last.

    Each file is written beside the parts under another name, so that it appears as a whole.
    made_of: what the header says of text, settings and vocabularies. check: raises ValueError if
    the pairs cannot be trained on. decode: of the tokenizers. Raises DamagedPartError, and OSError
    if a disk is full.
    """
    facts = [read_facts(parts, number) for number in range(num_parts)]
    check(facts)
    facts, stays, repeated = leave_out_repeated(parts, facts, text.config.drop_duplicates, decode)
    sample = [*_sample(parts, num_parts), *repeated]
    with _making(parts) as making:
        files = {
            f"{name}.npy": _join(making / f"{name}.npy", parts, name, [of(f) for f in facts], stays)
            for name, of in counted(LENGTHS.items(), "putting the parts together", len(LENGTHS))
        }
        files[HELD_OUT] = _write(making / HELD_OUT, [json.dumps(text.held_out).encode()])
        files[LEFT_OUT] = _write(
            making / LEFT_OUT, [format_sample(sample).encode(errors="replace")]
        )
        for name in files:
            _move(making / name, folder / name)
    pairs_of_corpora = [0] * len(text.corpora)
    for part in facts:
        pairs_of_corpora[part.corpus] += part.num_pairs
    header = {
        "format": FORMAT,
        **made_of,
        "pairs": sum(pairs_of_corpora),
        "pairs_of_corpora": pairs_of_corpora,
        "tokens": [sum(part.num_ids[side] for part in facts) for side in (0, 1)],
        "left_out": total_left_out(facts),
        "overlap": _overlap(facts, text.evaluation),
        "num_parts": num_parts,
        "files": files,
    }
    header["crc32"] = header_checksum(header)
    storage.write_atomically(folder / HEADER, json.dumps(header, indent=1), f".{os.getpid()}")
    if not storage.is_remote(folder):
        mark_verified(pathlib.Path(folder), files)


def _sample(parts: epath.Path, num_parts: int) -> list[LeftOutPair]:
    """Returns some of the pairs of each reason that were left out before parts were compared."""
    sample: list[LeftOutPair] = []
    for number in range(num_parts):
        sample = choose_of_each([*sample, *read_sample(parts, number)])
    return sample


def _overlap(facts: list[PartFacts], evaluation: EvaluationSets) -> Overlap | None:
    """Returns the overlap with the evaluation sets; None if a part was written for other sets."""
    if any(part.evaluation != evaluation.digest for part in facts):
        return None
    source, target = ({i for part in facts for i in part.overlap[side]} for side in (0, 1))
    return evaluation.count([source, target])


@contextmanager
def _making(parts: epath.Path) -> Iterator[pathlib.Path]:
    """Gives a new local folder; on the file system of the parts, unless they are on gs://."""
    local = None if storage.is_remote(parts) else parts
    folder = pathlib.Path(tempfile.mkdtemp(prefix="making-", dir=local))
    try:
        yield folder
    finally:
        remove_folder(folder)


def _move(file: pathlib.Path, path: epath.Path) -> None:
    if not storage.is_remote(path):
        os.replace(file, path)
        return
    with open(file, "rb") as source, storage.open_atomically(path) as copy:
        shutil.copyfileobj(source, copy, CHUNK)


def _join(
    path: pathlib.Path,
    parts: epath.Path,
    name: str,
    lengths: list[int],
    stays: list[np.ndarray] | None,
) -> dict[str, int]:
    """Writes an array of all parts as an .npy file; returns its size and checksum.

    lengths: of the array in each part. stays: which of the pairs of each part; None: all.
    """

    def content() -> Iterator[bytes]:
        for number in range(len(lengths)):
            (array,) = read_part(parts, number, [name])
            if number == 0:
                yield _npy_header(sum(lengths), array.dtype)
            if stays is not None and not stays[number].all():
                array = array[_stays_in(name, parts, number, stays[number])]
            yield array.tobytes()

    return _write(path, content())


def _stays_in(name: str, parts: epath.Path, number: int, stays: np.ndarray) -> np.ndarray:
    """Returns which elements of an array of a part stay, of which the pairs are known."""
    if name.endswith("_lengths"):
        return stays
    (lengths,) = read_part(parts, number, [name.replace("_ids", "_lengths")])
    return np.repeat(stays, lengths)


def _npy_header(length: int, dtype: np.dtype[Any]) -> bytes:
    """Returns the beginning of an .npy file of a flat array."""
    file = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


def _write(path: pathlib.Path, content: Iterable[bytes]) -> dict[str, int]:
    """Writes a file that is on the disk when this returns; returns its size and checksum."""
    crc = 0
    with open(path, "wb") as file:
        for data in content:
            file.write(data)
            crc = zlib.crc32(data, crc)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "crc32": crc}
