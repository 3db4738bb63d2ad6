"""The folders of results: their names, so that none replaces another's, and what is in them."""

import json
import os
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath
from etils.epath import PathLike

from transformer.config import Config
from transformer.console import quantity
from transformer.data.files.text import folder_name
from transformer.files import storage
from transformer.search.options import SearchOptions
from transformer.workdir import WorkDir

LONGEST_NAME = 100  # characters, before a checksum


def results_name(
    config: Config,
    test_set: str,
    checkpoint: str = "default",
    *,
    corpus: str | None = None,
    dtype: str | None = None,
    ensemble: Sequence[PathLike] = (),
    search: Mapping[str, Any] | None = None,
) -> str:
    """Returns the name of the folder of a test set, for a run with this configuration.

    What is not as when the run scores itself, as training ends, is part of the name. corpus: where
    the text is, if that was given; search: options, of which those that are the run's own do not
    count.

    >>> results_name(Config(), "train[:1%]", search={"beam_size": 1, "sample": True})
    'train_0_1__beam_size_1_sample'
    """
    usual, how = SearchOptions.from_config(config.decoding), {}
    if corpus and _whole_path(corpus) != _whole_path(config.data.corpus):
        how["corpus"] = _path_name(corpus)
    if checkpoint != "default":
        how["checkpoint"] = checkpoint
    if dtype and dtype != config.model.dtype:
        how["dtype"] = dtype
    for name, value in (search or {}).items():
        if hasattr(usual, name) and value != getattr(usual, name):
            how[name] = value
    if ensemble:
        how["ensemble"] = "_".join(_path_name(str(run)) for run in ensemble)
    parts = [name if value is True else f"{name}_{value}" for name, value in how.items()]
    return bounded_name("_".join([folder_name(test_set), *parts]))


def bounded_name(text: str) -> str:
    """Returns a name that a folder can have, cut and with a checksum if it is too long."""
    name = re.sub(r"[^\w.-]+", "_", text)
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}_{checksum(text)}"


def _path_name(path: str) -> str:
    """Returns the last part of a path, and a checksum of all of it: "wmt14_5f0c2a91"."""
    return f"{os.path.basename(path.rstrip('/'))}_{checksum(_whole_path(path))}"


def checksum(item: Any) -> str:
    """Returns eight hexadecimal digits that depend on an array, or on the repr of anything else."""
    data = np.ascontiguousarray(item).data if isinstance(item, np.ndarray) else repr(item).encode()
    return f"{zlib.crc32(data):08x}"


def _whole_path(path: str) -> str:
    return path if storage.is_remote(path) else os.path.realpath(path)


def write_results(
    workdir: WorkDir, name: str, record: dict[str, Any], files: Mapping[str, str | list[Any]]
) -> epath.Path:
    """Writes results/NAME/: `record` as report.json, and the other `files`; a split may be NAME.

    files: text, or rows of which each becomes a line of JSON. Hosts that do not write leave it out.
    Returns the path of report.json.
    """
    folder = workdir / "results" / folder_name(name)
    if workdir.writes:
        folder.mkdir(parents=True, exist_ok=True)
        report = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        for file, content in {**files, "report.json": report}.items():
            if isinstance(content, list):
                rows = (json.dumps(row, ensure_ascii=False) for row in content)
                content = "".join(f"{row}\n" for row in rows)
            storage.write_atomically(folder / file, content)
    return folder / "report.json"


def origin(workdir: WorkDir) -> dict[str, str]:
    """Returns when, with what and on what a run was trained last, and the command that began it."""
    if not (starts := workdir.read_starts()):
        return {}
    last = starts[-1]
    devices = [f"{count} × {kind}" for kind, count in last.get("devices", {}).items()]
    versions = {"Python": last.get("python", "?"), **last.get("packages", {})}
    facts = {
        "started": f"{last['time']}, {quantity(len(starts), 'start')}",
        "devices": f"{', '.join(devices)} on {quantity(last.get('num_hosts', 1), 'host')}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "commit": last.get("commit") or "",
        "command": shlex.join(starts[0].get("command", [])),  # which had the settings
    }
    return {name: text for name, text in facts.items() if text}
