"""Names the folders in results/, so that no test set or way of scoring replaces another's."""

import os
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from etils.epath import PathLike

from transformer.data.files.splits import folder_name
from transformer.files import storage
from transformer.search.options import SearchOptions
from transformer.workdir import WorkDir

LONGEST_NAME = 100  # characters, before a checksum


def results_name(test_set: str, how: Mapping[str, Any]) -> str:
    """Returns the name of the folder of a test set; how: what `scored_otherwise` returns.

    >>> results_name("train[:1%]", {}), results_name("test", {"beam_size": 1, "sample": True})
    ('train_0_1_', 'test_beam_size_1_sample')
    """
    parts = [name if value is True else f"{name}_{value}" for name, value in how.items()]
    return bounded_name("_".join([folder_name(test_set), *parts]))


def bounded_name(text: str) -> str:
    """Returns a name that a folder can have, cut and with a checksum if it is too long."""
    name = re.sub(r"[^\w.-]+", "_", text)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}_{checksum(text)}"


def scored_otherwise(
    workdir: PathLike,
    checkpoint: str,
    *,
    corpus: str | None = None,
    dtype: str | None = None,
    search: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns {name: value} of what is not as when the run scores itself, as training ends.

    corpus: where the text is, if that was given; search: options, of which those that are the
    run's own do not count.
    """
    config = WorkDir(workdir).load_config()
    usual = SearchOptions.from_config(config.decoding)
    how: dict[str, Any] = {}
    if corpus and _whole_path(corpus) != _whole_path(config.data.corpus):
        how["corpus"] = path_name(corpus)
    if checkpoint != "default":
        how["checkpoint"] = checkpoint
    if dtype and dtype != config.model.dtype:
        how["dtype"] = dtype
    for name, value in (search or {}).items():
        if hasattr(usual, name) and value != getattr(usual, name):
            how[name] = value
    return how


def path_name(path: str) -> str:
    """Returns the last part of a path, and a checksum of all of it: "wmt14_5f0c2a91"."""
    return f"{os.path.basename(path.rstrip('/'))}_{checksum(_whole_path(path))}"


def checksum(item: Any) -> str:
    """Returns eight hexadecimal digits that depend on an array, or on the repr of anything else."""
    data = np.ascontiguousarray(item).data if isinstance(item, np.ndarray) else repr(item).encode()
    return f"{zlib.crc32(data):08x}"


def _whole_path(path: str) -> str:
    return path if storage.is_remote(path) else os.path.realpath(path)
