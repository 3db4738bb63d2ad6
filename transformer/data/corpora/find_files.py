"""Finds the files of a split of sentence pairs: in a folder, or by a pattern of their names.

A file holds both sides of its pairs (.tsv, .jsonl, .parquet) or one of them, and ends in its
language then. Several files are one after another: `train.00.en.gz`, `train.01.en.gz` ….
"""

import re
from fnmatch import fnmatchcase
from typing import NamedTuple, NoReturn

from etils import epath

from transformer.data.files.text import OPENERS, describe_folder, name_in_folder
from transformer.files.storage import locate

FORMATS = "tsv", "jsonl", "parquet"  # endings of files that hold both sides
NUMBERED = re.compile(r"(.+?)[.-](\d+)(?:-of-(\d+))?")  # as Hugging Face writes them, too
WILDCARD = re.compile(r"[*?]")
SPLIT_OF_FILES = "train"  # the only split of a corpus that is named by its files


class PairFiles(NamedTuple):
    """A file with both sides of some pairs, or two files with a side each, the source first.

    format: one of `FORMATS`, or "" for two files.
    """

    format: str
    files: tuple[epath.Path, ...]


def find_pair_files(corpus: str, split: str, source: str, target: str) -> list[PairFiles]:
    """Returns the files of a split, in the order of the numbers in their names.

    corpus: a folder, a file, or a pattern with * or ? in its last part, local or gs://. source,
    target: the languages. Raises ValueError if there are none, one of them is missing, or the same
    pairs are there twice.
    """
    by_stem, languages = files_by_stem(corpus, split), (source, target)
    pairs: dict[str, PairFiles] = {}
    for stem in sorted(by_stem, key=_with_numbers):
        files = by_stem[stem]
        sides = [files[language] for language in languages if language in files]
        formats = [name for name in FORMATS if name in files]
        if len(formats) + bool(sides) > 1:
            _refuse_both(corpus, [*(files[name] for name in formats), *sides])
        if len(sides) == 1:
            _refuse_missing(corpus, stem, languages, f"there is only {sides[0].name}; ")
        if formats:
            pairs[stem] = PairFiles(formats[0], (files[formats[0]],))
        elif sides:
            pairs[stem] = PairFiles("", tuple(sides))
    stem = "NAME" if names_files(corpus) else name_in_folder(locate(corpus), split)
    if not pairs:
        _refuse_missing(corpus, stem, languages)
    if len(pairs) > 1 and stem in pairs:
        _refuse_both(corpus, [pair_files.files[0] for pair_files in pairs.values()][:2])
    if missing := _missing_number(set(pairs)):
        _refuse_missing(corpus, missing, languages, "it is one of several; ")
    return list(pairs.values())


def names_files(corpus: str) -> bool:
    """Whether a corpus is named by its files, and not by a folder."""
    path = locate(corpus)
    return bool(WILDCARD.search(path.name)) or path.is_file()


def files_by_stem(corpus: str, split: str) -> dict[str, dict[str, epath.Path]]:
    """Returns all files of a split by stem and ending: {"train.00": {"en": …/train.00.en.gz}}.

    Of a file that is there packed and unpacked, the latter counts. Raises ValueError for another
    split than there is.
    """
    path = locate(corpus)
    by_name = names_files(corpus)
    if by_name and split != SPLIT_OF_FILES:
        raise ValueError(
            f"{corpus} names files, which are the split '{SPLIT_OF_FILES}', or a part of it as "
            f"{SPLIT_OF_FILES}[99%:], not '{split}': hold '{split}' out of them with "
            f"data.held_out, or name a folder that has it as the first corpus."
        )
    folder, split = (path.parent, "") if by_name else (path, name_in_folder(path, split))
    found: dict[str, dict[str, epath.Path]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        unpacked = file.name.removesuffix(file.suffix) if file.suffix in OPENERS else file.name
        stem, _, ending = unpacked.rpartition(".")
        numbered = NUMBERED.fullmatch(stem)
        is_of_split = stem == split or (numbered and numbered[1] == split)
        if (
            (file.name == path.name or fnmatchcase(file.name, path.name))
            if by_name
            else is_of_split
        ):
            found.setdefault(stem, {}).setdefault(ending, file)
    return found


def _with_numbers(stem: str) -> list[str | int]:
    """Returns a key that sorts part.2 before part.10: ["part.", 2, ""] and ["part.", 10, ""]."""
    parts = re.split(r"(\d+)", stem)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def _missing_number(stems: set[str]) -> str:
    """Returns a stem that is not there of those that say how many they are, or "".

    >>> _missing_number({"train-00000-of-00003", "train-00002-of-00003"})
    'train-00001-of-00003'
    """
    matches = filter(None, (re.fullmatch(r"(.*?)(\d+)-of-(\d+)", stem) for stem in stems))
    for name, width, total in {(match[1], len(match[2]), match[3]) for match in matches}:
        for number in range(int(total)):
            stem = f"{name}{number:0{width}}-of-{total}"
            if stem not in stems:
                return stem
    return ""


def _refuse_missing(corpus: str, stem: str, languages: tuple[str, str], note: str = "") -> NoReturn:
    """Raises ValueError as there are no files of this stem, or only one of two."""
    path = locate(corpus)
    folder, start = path, f"The corpus folder {path} must hold"
    if names_files(corpus):
        folder, start = path.parent, f"The files {corpus} must be"
    raise ValueError(
        f"{start} {stem}.{languages[0]} and {stem}.{languages[1]} (or {stem}.tsv, .jsonl or "
        f".parquet; text may end in .gz or .xz); {note}{describe_folder(folder)}."
    )


def _refuse_both(corpus: str, files: list[epath.Path]) -> NoReturn:
    """Raises ValueError as these files may hold the same pairs."""
    raise ValueError(
        f"Of {' and '.join(file.name for file in files)} in {corpus} only one can be meant: a "
        f"split is one file, or one for each language, or several that all have numbers; move the "
        f"others away."
    )
