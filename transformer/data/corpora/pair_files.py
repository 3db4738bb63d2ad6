"""Finds the files with the sentence pairs of a split, and reads them a block at a time.

A file holds both sides of its pairs (.tsv, .jsonl, .parquet) or one of them, and ends in its
language then. Several files are one after another: `train.00.en.gz`, `train.01.en.gz` …. A block is
cut out of them by their line feeds alone, and decoding it is for another process.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from typing import Any, NoReturn

from etils import epath

from transformer.data.files.text import (
    LINE_BREAK,
    NOT_UTF8,
    OPENERS,
    SURROGATE,
    Repairs,
    Split,
    decode_line,
    describe_folder,
    name_in_folder,
    open_lines,
    part_of,
)
from transformer.files.reading import reason_of, unreadable
from transformer.files.storage import locate

FORMATS = "tsv", "jsonl", "parquet"  # endings of files that hold both sides
NUMBERED = re.compile(r"(.+?)[.-]\d+(?:-of-\d+)?")  # as Hugging Face writes them, too
OF_TOTAL = re.compile(r"^(.*?)\d+-of-(\d+)$", re.MULTILINE)
WILDCARD = re.compile(r"[*?]")
SPLIT_OF_FILES = "train"  # the only split of a corpus that is named by its files
PAIRS_OF_BLOCK = 50_000
LINES_AT_ONCE = 64  # each at most 1 MiB
BYTES_OF_BLOCK = 2**27
BUFFER = 2**20  # bytes of a column that are read at a time: its share of a row group may be large
Pair = tuple[str, str]  # (source, target)
Pairs = list[Pair]
# One of FORMATS and a file with both sides, or "" and two files with a side each, the source first.
PairFiles = tuple[str, tuple[epath.Path, ...]]
Parse = Callable[[Any], Pair]  # of a line or row; raises ValueError, whose text begins "must"


# ---- finding them


def find_pair_files(corpus: str, split: str, source: str, target: str) -> list[PairFiles]:
    """Returns the files of a split, in the order of the numbers in their names.

    corpus: a folder, a file, or a pattern with * or ? in its last part, local or gs://. source,
    target: the languages. Raises ValueError if there are none, one of them is missing, or the same
    pairs are there twice.
    """
    by_stem, languages = files_by_stem(corpus, split), (source, target)
    pairs: dict[str, PairFiles] = {}
    for stem in sorted(by_stem, key=_natural_order):
        files = by_stem[stem]
        choices: list[PairFiles] = [(name, (files[name],)) for name in FORMATS if name in files]
        if sides := tuple(files[language] for language in languages if language in files):
            choices.append(("", sides))
        if len(choices) > 1:
            _refuse_both(corpus, [file for _, files in choices for file in files])
        if len(sides) == 1:
            _refuse_missing(corpus, stem, languages, f"there is only {sides[0].name}; ")
        if choices:
            pairs[stem] = choices[0]
    stem = "NAME" if names_files(corpus) else name_in_folder(locate(corpus), split)
    if not pairs:
        _refuse_missing(corpus, stem, languages)
    if len(pairs) > 1 and stem in pairs:
        _refuse_both(corpus, [files[0] for _, files in pairs.values()][:2])
    for (name, total), count in Counter(re.findall(OF_TOTAL, "\n".join(pairs))).items():
        if count < int(total):
            note = f"of these there are {count}; "
            _refuse_missing(corpus, f"{name}…-of-{total}", languages, note)
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
    path, by_name = locate(corpus), names_files(corpus)
    if by_name and split != SPLIT_OF_FILES:
        raise ValueError(
            f"{corpus} names files, which are the split '{SPLIT_OF_FILES}', not '{split}': hold "
            f"'{split}' out with data.held_out, or name a folder that has it as the first corpus."
        )
    folder, split = (path.parent, "") if by_name else (path, name_in_folder(path, split))
    by_stem: dict[str, dict[str, epath.Path]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        unpacked = file.name.removesuffix(file.suffix) if file.suffix in OPENERS else file.name
        stem, _, ending = unpacked.rpartition(".")
        if by_name:
            belongs = file.name == path.name or fnmatchcase(file.name, path.name)
        else:
            numbered = NUMBERED.fullmatch(stem)
            belongs = split in (stem, numbered and numbered[1])
        if belongs:
            by_stem.setdefault(stem, {}).setdefault(ending, file)
    return by_stem


def _natural_order(stem: str) -> list[str | int]:
    """Returns a key that sorts part.2 before part.10: ["part.", 2, ""] and ["part.", 10, ""]."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", stem)]


def _refuse_missing(corpus: str, stem: str, languages: tuple[str, str], note: str = "") -> NoReturn:
    is_named, path = names_files(corpus), locate(corpus)
    raise ValueError(
        f"The corpus {corpus} must {'be' if is_named else 'hold'} {stem}.{languages[0]} and "
        f"{stem}.{languages[1]} (or {stem}.tsv, .jsonl or .parquet; text may end in .gz or .xz); "
        f"{note}{describe_folder(path.parent if is_named else path)}."
    )


def _refuse_both(corpus: str, files: list[epath.Path]) -> NoReturn:
    raise ValueError(
        f"Of {' and '.join(file.name for file in files)} in {corpus} only one can be meant; move "
        f"the others away."
    )


# ---- reading them


@dataclass
class Block:
    """Neighbouring pairs of a corpus as they were read; it can be sent to another process.

    files: those with the pairs, one or one for each side, or else the name of the corpus. first:
    the number of the first line, row or pair, from 1. content: the lines of each file, each with a
    line feed behind it, or rows. parse: of a line with both sides, or of a row. share_read: how
    much of the corpus has been read behind this block, from 0 to 1; 0 if unknown. noise: of
    sources. number: of the block in the training text, from 0; corpus: of its corpus.
    """

    files: tuple[str, ...]
    first: int
    content: tuple[bytes, ...] | list[Any]
    parse: Parse | None
    num_pairs: int
    share_read: float = 0.0
    noise: Callable[[str], str] | None = None
    number: int = 0
    corpus: int = 0

    def decode(self) -> tuple[Pairs, Repairs]:
        """Returns the pairs, and what was repaired in them.

        Raises ValueError, with its place, for a line or row that is no pair.
        """
        repairs = Repairs()
        columns = [self.content]
        if isinstance(self.content, tuple):
            columns = []
            for file, column in zip(self.files, self.content, strict=True):
                lines = enumerate(column.split(b"\n")[:-1], self.first)
                columns.append([decode_line(line, file, n, repairs) for n, line in lines])
        pairs = zip(*columns, strict=True)
        if self.parse:
            pairs = self._parsed(columns[0], self.parse, repairs)
        if self.noise:
            pairs = ((self.noise(source), target) for source, target in pairs)
        return list(pairs), repairs

    def _parsed(self, rows: Sequence[Any], parse: Parse, repairs: Repairs) -> Iterator[Pair]:
        """Yields pairs with a space for each line break, and U+FFFD for half a character."""
        name = "line" if isinstance(self.content, tuple) else "row"
        for number, row in enumerate(rows, self.first):
            try:
                source, target = parse(row)
            except ValueError as error:
                raise ValueError(f"{self.files[0]} {name} {number} {error}.") from None
            if "\n" in source or "\n" in target:
                source, target = re.sub(r"\r?\n", " ", source), re.sub(r"\r?\n", " ", target)
                repairs.count(self.files[0], LINE_BREAK, number)
            if SURROGATE.search(source) or SURROGATE.search(target):
                source, target = SURROGATE.sub("\ufffd", source), SURROGATE.sub("\ufffd", target)
                repairs.count(self.files[0], NOT_UTF8, number)
            yield source, target

    def cut(self, start: int, stop: int) -> None:
        """Keeps the pairs from number `start` of this block up to `stop`."""
        if stop - start == self.num_pairs:
            return
        self.first, self.num_pairs = self.first + start, stop - start
        if isinstance(self.content, tuple):
            columns = [column.split(b"\n")[start:stop] for column in self.content]
            self.content = tuple(b"\n".join(lines) + b"\n" for lines in columns)
        else:
            self.content = self.content[start:stop]


def blocks_of_pairs(name: str, pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yields pairs that are text already. name: of the corpus."""
    pairs, first = iter(pairs), 1
    while rows := list(islice(pairs, PAIRS_OF_BLOCK)):
        yield Block((name,), first, rows, parse_row, len(rows))
        first += len(rows)


def sample_evenly(pairs: Iterable[Pair], most: int) -> tuple[Pairs, int]:
    """Returns (every pair, or of more than `most` every 2nd, 4th, 8th …; the number of all)."""
    sample, every, number = Pairs(), 1, 0
    for pair in pairs:
        if number % every == 0:
            sample.append(pair)
        if len(sample) > most:
            sample, every = sample[::2], 2 * every
        number += 1
    return sample, number


def read_files(
    found: Sequence[PairFiles], part: Split, languages: Sequence[str]
) -> Iterator[Block]:
    """Yields the pairs of a part of files, one after another; raises ValueError if one is wrong.

    Of blocks with 6 and 4 pairs, "train[50%:]" is the last pair of the first and all of the second.
    """
    pairs, first = range(sys.maxsize), 0
    if (part.start, part.stop) != (0, 1):
        pairs = part_of(range(_count_pairs(found)), part.start, part.stop)
    parsers = {"": None, "tsv": parse_tsv, "jsonl": partial(parse_json, *languages)}
    sizes = [num_bytes(files) for _, files in found]
    for index, (kind, files) in enumerate(found):
        if kind == "parquet":
            blocks = _parquet_blocks(files[0], *languages)
        else:
            blocks = _text_blocks(files, parsers[kind])
        for block in blocks:
            size_read = sum(sizes[:index]) + block.share_read * sizes[index]
            block.share_read = size_read / max(1, sum(sizes))
            start, stop = max(pairs.start - first, 0), min(pairs.stop - first, block.num_pairs)
            first += block.num_pairs
            if start < stop:
                block.cut(start, stop)
                yield block
            if first >= pairs.stop:
                return


def num_bytes(files: Iterable[epath.Path]) -> int:
    """Returns the size of files; raises ValueError for a broken link."""
    total = 0
    for file in files:
        try:
            total += file.stat().length
        except OSError as error:
            raise unreadable(str(file), error) from None
    return total


def _count_pairs(found: Sequence[PairFiles]) -> int:
    """Returns how many pairs files hold, which takes a reading of text but not of Parquet."""
    num_pairs = 0
    for kind, files in found:
        if kind == "parquet":
            with _open_parquet(files[0]) as opened:
                num_pairs += opened.metadata.num_rows
        else:
            num_pairs += sum(block.num_pairs for block in _text_blocks(files, None))
    return num_pairs


def parse_tsv(line: str) -> Pair:
    """Returns the pair of a line SOURCE<tab>TARGET."""
    row = line.split("\t")
    if len(row) != 2:
        raise ValueError(f"must be SOURCE<tab>TARGET, but has {len(row)} columns")
    return row[0], row[1]


def parse_json(source: str, target: str, line: str) -> Pair:
    """Returns the pair of a JSON object, whose keys are the languages: {"en": "a", "de": "b"}.

    Datasets of Hugging Face have such an object below the key "translation".
    """
    with suppress(ValueError, LookupError, AttributeError, TypeError):
        value = json.loads(line)
        value = value.get("translation", value)
        return parse_row((value[source], value[target]))
    raise ValueError(
        f'must be a JSON object of at most 1 MiB with a text each for "{source}" and "{target}" '
        f'(perhaps below "translation"), but begins with {line[:40]!r}'
    )


def parse_row(row: tuple[object, object]) -> Pair:
    """Returns a row of two texts as it is."""
    source, target = row
    if isinstance(source, str) and isinstance(target, str):
        return source, target
    raise ValueError(f"must hold texts, not {target if isinstance(source, str) else source!r}")


def _text_blocks(files: Sequence[epath.Path], parse: Parse | None) -> Iterator[Block]:
    """Yields the lines of a file, or of two side by side; a block has fewer if they are long."""
    opened = [open_lines(file) for file in files]
    sides, first = [file.undecoded() for file in opened], 1
    while True:
        columns: list[list[bytes]] = [[] for _ in files]
        number = size = 0
        while size < BYTES_OF_BLOCK and number < PAIRS_OF_BLOCK:
            most = min(LINES_AT_ONCE, PAIRS_OF_BLOCK - number)
            new = [list(islice(side, most)) for side in sides]
            if len(set(map(len, new))) > 1:
                read = [first - 1 + number + len(lines) for lines in new]
                counts = [n + sum(1 for _ in side) for n, side in zip(read, sides, strict=True)]
                raise ValueError(
                    f"The two sides must have equally many lines, but {files[0]} has {counts[0]} "
                    f"and {files[1]} has {counts[1]}."
                )
            if not new[0]:
                break
            number += len(new[0])
            for column, lines in zip(columns, new, strict=True):
                column += lines
                size += sum(map(len, lines))
        if not number:
            return
        content, share = tuple(map(b"".join, columns)), opened[0].fraction_read or 0.0
        yield Block(tuple(map(str, files)), first, content, parse, number, share)
        first += number


def _parquet_blocks(file: epath.Path, source: str, target: str) -> Iterator[Block]:
    """Yields rows. The columns are named by the languages, perhaps fields of `translation`."""
    import pyarrow

    first, wanted = 1, ([source, target], [f"translation.{source}", f"translation.{target}"])
    with _open_parquet(file) as opened:
        paths = [opened.schema.column(index).path for index in range(len(opened.schema))]
        names = next((names for names in wanted if {*names} <= {*paths}), None)
        if names is None:
            raise ValueError(
                f"{file} must have columns {source} and {target}, perhaps below translation; it "
                f"has {', '.join(paths)}."
            )
        for batch in opened.iter_batches(PAIRS_OF_BLOCK, columns=names):
            table = pyarrow.table(batch).flatten()
            rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
            share = (first + len(rows) - 1) / opened.metadata.num_rows
            yield Block((str(file),), first, rows, parse_row, len(rows), share)
            first += len(rows)


@contextmanager
def _open_parquet(file: epath.Path) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with (
            file.open("rb") as binary,
            parquet.ParquetFile(binary, buffer_size=BUFFER, pre_buffer=False) as opened,
        ):
            yield opened
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{file} cannot be read: {reason_of(error)}.") from None
