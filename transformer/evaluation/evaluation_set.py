"""What a run is scored on (a split, given examples, files, a published test set), and its name."""

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from etils.epath import PathLike
from sacrebleu.dataset import DATASETS

from transformer.config import Config
from transformer.console import say
from transformer.data.corpora.cleaning import read_held_out
from transformer.data.corpora.corpora import Tags
from transformer.data.corpora.training_text import load_evaluation_pairs
from transformer.data.files.text import folder_name, read_text
from transformer.data.tokenizers.sentencepiece import check_texts
from transformer.evaluation.metrics import Reference, all_references
from transformer.files import storage
from transformer.registry import task_kind
from transformer.search.options import SearchOptions
from transformer.workdir import WorkDir

LONGEST_NAME = 100  # characters of the name of a folder, before a checksum


class EvaluationSet(NamedTuple):
    """Examples with what each should become.

    name: of its folder in results/. title: its name in reports. sources, references: a reference is
    a translation, a tuple of several, or a class; empty for a split that the task itself reads.
    """

    name: str
    title: str
    sources: Any = ()
    references: Sequence[Any] = ()


def read_examples(
    run: WorkDir,
    config: Config,
    *,
    split: str | None = None,
    corpus: str | None = None,
    files: Sequence[PathLike] = (),
    test_set: str = "",
    sources: Sequence[str] | np.ndarray | None = None,
    references: Sequence[Reference] | None = None,
) -> EvaluationSet:
    """Returns what `transformer.evaluate` is to score, by its arguments; config: the run's."""
    is_translation = task_kind(config.task) == "translation"
    if sources is not None and references is not None:
        return _given_set(config, sources, references)
    if sources is not None or references is not None:
        raise ValueError("sources and references go together: give both, or neither.")
    if (files or test_set) and not is_translation:
        raise ValueError(f"A run of {config.task} is scored on a split: leave out the test set.")
    if test_set:
        return read_published(test_set, "-".join(config.data.languages))
    if files:
        return read_files(files)
    data = replace(config.data, corpus=corpus or config.data.corpus)
    split = split or data.test_split
    examples = EvaluationSet(split, f"{data.corpus} {split}")
    if not is_translation:
        return examples
    Tags(config.data).check_known(data.corpus)
    held_out = read_held_out(run.path) if data.corpus == config.data.corpus else None
    sources, references = zip(*load_evaluation_pairs(data, split, held_out), strict=True)
    return examples._replace(sources=sources, references=references)


def read_files(files: Sequence[PathLike]) -> EvaluationSet:
    """Returns the lines of a file of sources and of one or several of references."""
    sources, *columns = map(read_lines, files)
    if not columns:
        raise ValueError(f"There are no references for {files[0]}: name their file, too.")
    for texts in columns:
        _check_pairs(sources, texts)
    references = list(zip(*columns, strict=True))
    name = "stdin" if str(files[0]) == "-" else Path(files[0]).stem
    identity = checksum(list(zip(sources, references, strict=True)))
    return EvaluationSet(f"{name}_{identity}", str(files[0]), sources, references)


def read_lines(path: PathLike) -> list[str]:
    """Reads the lines of a file or of standard input; says which of them had to be repaired."""
    text = read_text(path)
    for repair, count in text.repairs.items():
        say(f"warning: {count:,} {repair}")
    return text.lines


def read_published(name: str, direction: str) -> EvaluationSet:
    """Returns a test set that sacrebleu knows by name, as "wmt14/full"; direction: "en-de".

    Raises ValueError if sacrebleu has no such test set, or cannot download it.
    """
    known = [key for key, dataset in DATASETS.items() if direction in dataset.langpairs]
    if name not in known:
        raise ValueError(
            f"--test_set is one that sacrebleu has for {direction} ({', '.join(known) or 'none'}), "
            f"not {name!r}; other texts are given with --input and --reference."
        )
    try:
        files = DATASETS[name].get_source_file(direction)
        files = [files, *DATASETS[name].get_reference_files(direction)]
    except (OSError, SystemExit) as error:
        raise ValueError(
            f"The test set {name} cannot be downloaded ({error}): copy ~/.sacrebleu from a machine "
            f"on which sacrebleu --download {name} -l {direction} has run."
        ) from None
    sources, *columns = (read_text(path).lines for path in files)
    return EvaluationSet(name, name, sources, list(zip(*columns, strict=True)))


def _given_set(
    config: Config, sources: Sequence[str] | np.ndarray, references: Sequence[Reference]
) -> EvaluationSet:
    """Returns examples of a program; raises ValueError if they do not pair or fit the task."""
    kind = task_kind(config.task)
    if kind not in ("translation", "classification", "images"):
        raise ValueError(f"A run of {config.task} is scored on a split: leave out sources.")
    may_be_several = kind == "translation" and not isinstance(references, str)
    several = (text for each in references for text in all_references(each))
    check_texts(several if may_be_several else references, "references")
    if kind != "images":
        check_texts(sources, "sources")
    _check_pairs(sources, references)
    name = f"given_{checksum(sources)}_{checksum(list(references))}"
    return EvaluationSet(name, "given", sources, list(references))


def _check_pairs(sources: Sequence[Any] | np.ndarray, references: Sequence[Any]) -> None:
    if len(sources) != len(references) or not len(sources):
        raise ValueError(
            f"There are {len(sources)} sources and {len(references)} references; they must pair, "
            f"and there must be at least one."
        )


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
    the text is, if that was given.

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
        if value != getattr(usual, name, value):
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
