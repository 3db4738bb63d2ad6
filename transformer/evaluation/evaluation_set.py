"""What a run is scored on: a split of a corpus, given examples, files, or a published test set."""

from collections.abc import Sequence
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
from transformer.data.files.text import read_text
from transformer.data.tokenizers.sentencepiece import check_texts
from transformer.evaluation.metrics import Reference, all_references
from transformer.evaluation.results import checksum
from transformer.registry import task_kind
from transformer.workdir import WorkDir

GIVEN = "given"  # the name of examples that are no split of a corpus


class EvaluationSet(NamedTuple):
    """Examples with what each should become.

    name: of its folder in results/. title: its name in reports. sources, references: a reference is
    a translation, a tuple of several, or a class; empty for a split that the task itself reads.
    """

    name: str
    title: str
    sources: Any = ()
    references: Sequence[Any] = ()

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """(source, reference) of each example."""
        return list(zip(self.sources, self.references, strict=True))


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
        source = DATASETS[name].get_source_file(direction)
        references = DATASETS[name].get_reference_files(direction)
    except (OSError, SystemExit) as error:
        raise ValueError(
            f"The test set {name} cannot be downloaded ({error}): copy ~/.sacrebleu from a machine "
            f"on which sacrebleu --download {name} -l {direction} has run."
        ) from None
    sources, *columns = (read_text(path).lines for path in [source, *references])
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
    name = f"{GIVEN}_{checksum(sources)}_{checksum(list(references))}"
    return EvaluationSet(name, GIVEN, sources, list(references))


def _check_pairs(sources: Sequence[Any] | np.ndarray, references: Sequence[Any]) -> None:
    if len(sources) != len(references) or not len(sources):
        raise ValueError(
            f"There are {len(sources)} sources and {len(references)} references; they must pair, "
            f"and there must be at least one."
        )
