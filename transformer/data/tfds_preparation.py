"""Prepares datasets of TensorFlow Datasets so that `transformer.data.tfds` can read them.

It needs a network, and TensorFlow only for datasets whose own code uses it (MNIST and CIFAR do).
"""

import contextlib
import io
import logging
import queue
import re
import shutil
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import downloader

from transformer.console import say
from transformer.data.tfds import check_prepared, open_builder, shorten
from transformer.signals import DONE, INTERRUPTED, WRONG_INPUT

ANSWER_TIMEOUT = 8.0  # seconds for the first of a dataset's sites to answer
MAX_RETRIES = 3  # of a request that fails; TFDS tries for more than three minutes
UNFINISHED = re.compile(r"\.tmp\.|\.incomplete")  # in the names of files that TFDS writes
USAGE = """usage: python -m transformer.data.tfds NAME

Downloads and prepares a dataset of the TFDS catalogue, such as wmt14_translate/de-en, in the folder
that the environment variable TFDS_DATA_DIR names (~/tensorflow_datasets without it)."""


def main(argv: Sequence[str]) -> int:
    """Prepares the dataset that a command line names; returns the exit code.

    argv: the words of the command line, the first of them the program.
    """
    if argv[1:] in (["--help"], ["-h"]):
        print(USAGE)
        return DONE
    if len(argv) != 2 or argv[1].startswith("-"):
        say(USAGE)
        return WRONG_INPUT
    try:
        say(f"{argv[1]} is prepared in {prepare(argv[1])}")
    except ValueError as error:
        say(f"error: {error}")
        return WRONG_INPUT
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    return DONE


def prepare(name: str) -> str:
    """Prepares a dataset of the catalogue, unless it is prepared already; returns its folder.

    Files that were downloaded whole are kept, also if it fails. Raises ValueError in one sentence
    if there is no such dataset or no network, or if TFDS cannot prepare it.
    """
    builder = open_builder(name, file_format="array_record")
    folder = Path(builder.data_dir)
    if not builder.info.splits:
        root = folder.parents[2 if builder.builder_config else 1]
        if not any((root / "downloads" / builder.name).rglob("*.INFO")):  # else it may need none
            check_sites(name, list(builder.url_infos or {}))
        size = builder.info.download_size
        say(f"preparing {name} in {folder}{f': {size} to download' if size else ''}")
        with _nothing_half_done(root / builder.name, root / "downloads"):
            _download_and_prepare(name, builder)
    check_prepared(name, builder)
    return str(builder.data_dir)


def _download_and_prepare(name: str, builder: tfds.core.DatasetBuilder) -> None:
    """Lets TFDS do it, without its messages; raises ValueError if it fails."""
    downloader.MAX_RETRIES = MAX_RETRIES  # pyrefly: ignore[bad-assignment]
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # each retry is a warning
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            builder.download_and_prepare()
    except Exception as error:  # TFDS raises errors of many types
        if isinstance(error, ImportError) and "tensorflow" in str(error):
            raise ValueError(
                f"{name} is one of the datasets that TFDS prepares with TensorFlow: pip install -e "
                f"'.[tf]' and start again (reading it will not need TensorFlow)."
            ) from None
        raise ValueError(
            f"{name} cannot be prepared: {type(error).__name__}: {shorten(error)}"
        ) from error


def check_sites(name: str, urls: Sequence[str]) -> None:
    """Raises ValueError if none of the sites of these files answers within `ANSWER_TIMEOUT`."""
    sites = {urlsplit(url).netloc: url for url in urls if url.startswith("http")}
    answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def ask(url: str) -> None:
        try:
            requests.head(url, timeout=ANSWER_TIMEOUT)
            answers.put(None)
        except requests.RequestException as error:
            answers.put(error)

    for url in sites.values():  # in threads, as no timeout bounds the look-up of a name
        threading.Thread(target=ask, args=(url,), daemon=True).start()
    reason: Exception = TimeoutError(f"no answer within {ANSWER_TIMEOUT:g} s")
    deadline = time.monotonic() + ANSWER_TIMEOUT
    for _ in sites:
        try:
            answer = answers.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            break
        if answer is None:
            return
        reason = answer
    if sites:
        raise ValueError(
            f"{name} cannot be downloaded, as {' and '.join(sorted(sites))} cannot be reached: is "
            f"there a network, or does it need HTTPS_PROXY? Prepared elsewhere, it can be copied "
            f"into TFDS_DATA_DIR ({shorten(reason)})."
        )


@contextlib.contextmanager
def _nothing_half_done(dataset: Path, downloads: Path) -> Generator[None]:
    """If the block fails, removes what TFDS leaves that no later attempt uses."""

    def unfinished() -> set[Path]:
        found = {path for path in downloads.rglob("*") if UNFINISHED.search(path.name)}
        return found | {*dataset.glob(".config")}

    before = unfinished()
    try:
        yield
    except BaseException:
        for path in unfinished() - before:
            shutil.rmtree(path, ignore_errors=True)
        empty = [*dataset.glob("*"), dataset, *downloads.glob("*"), downloads, dataset.parent]
        for folder in empty:
            with contextlib.suppress(OSError):  # it holds something
                folder.rmdir()
        raise
