"""text_files.py: text of any size, a line at a time, whatever its bytes."""

import gzip
import io
import itertools
import lzma
import os
import random
import re
import threading

import pytest

from transformer.data.files import text as text_files
from transformer.data.files.text import (
    LONGEST_LINE,
    Lines,
    count_lines,
    open_lines,
    parse_split,
    part_of,
    read_text,
)
from transformer.files.reading import TransientError

LINES = {  # the bytes of a file: its lines
    b"": [],
    b"\n": [""],
    b"a": ["a"],
    b"a\n": ["a"],
    b"a\nb": ["a", "b"],
    b"a\n\nb\n": ["a", "", "b"],
    b"a\r\nb\r\n": ["a", "b"],
    b"a\r\nb\r": ["a", "b"],
    b"a\rb\n": ["a\rb"],
    b"a\r\r\n": ["a\r"],
    b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n": ["a", "\ufeffb"],
    "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\n".encode(): ["a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg"],
    b"a\x00b\n": ["a\x00b"],
    b" a\t b \n": [" a\t b "],
    b"a\xffb\nc\n": ["a\ufffdb", "c"],
    b"\xed\xa0\x80\n": ["\ufffd\ufffd\ufffd"],  # a surrogate is not UTF-8
}


PACK = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize(("data", "lines"), LINES.items(), ids=repr)
def test_a_line_ends_at_its_line_feed_and_nowhere_else(data, lines, tmp_path):
    """Catches splitlines(), universal newlines and strip(), which shift or lose lines."""
    for ending, pack in PACK.items():
        path = tmp_path / f"a{ending}"
        path.write_bytes(pack(data))
        found = open_lines(path)
        assert list(found) == lines
        assert found.fraction_read == (1.0 if path.stat().st_size else None)
        assert count_lines(path) == (None if ending else len(lines))


def test_bytes_that_are_not_utf8_are_counted_with_their_lines():
    """Catches a Latin-1 file that is trained on without a word, or warned of a million times."""
    few = b"ok\n\xe4\nok \xef\xbf\xbd\n\xff\xfe\n"  # a genuine U+FFFD is no fault
    many = b"\xff\n" * 1000
    for data, number, places in ((few, 2, "2, 4"), (many, 1000, "1, 2, 3, 4, 5, …")):
        lines = Lines(io.BytesIO(data), "train.de")
        list(lines)
        ((repair, count),) = lines.repairs.named().items()
        assert f"train.de line {places})" in repair and count == number


def test_a_line_without_end_is_cut_between_two_characters_and_the_next_is_whole():
    """Catches memory for a line of 100 MB, half a character, and lines that shift."""
    read = []

    class Watched(io.BytesIO):
        def readline(self, size=-1):
            read.append(super().readline(size))
            return read[-1]

    long = b"x" * (LONGEST_LINE - 1) + "ä".encode() * LONGEST_LINE
    fits = b"y" * LONGEST_LINE
    found = Lines(Watched(long + b"\n" + fits + b"\nnext\n"), "a")
    first, second, third = found
    assert first == "x" * (LONGEST_LINE - 1)
    assert (second, third) == (fits.decode(), "next")
    assert max(map(len, read)) <= LONGEST_LINE + 1
    assert found.repairs.named() == {"lines longer than 1 MiB, cut there (a line 1)": 1}


def test_a_file_that_breaks_off_gives_its_lines_and_then_a_sentence(tmp_path):
    """Catches a truncated archive whose translation seems complete, and an estimate of the time
    left that counts unpacked bytes."""
    text = random.Random(0).randbytes(2**20).hex("\n", 16)
    packed = gzip.compress(text.encode())
    for content in (packed, packed[: len(packed) * 3 // 4]):
        (tmp_path / "a.gz").write_bytes(content)
        found = open_lines(tmp_path / "a.gz")
        stream = iter(found)
        assert list(itertools.islice(stream, 2**15)) == text.split("\n")[: 2**15]  # half of them
        assert abs(found.fraction_read - len(packed) / len(content) / 2) < 0.1
    with pytest.raises(ValueError, match=r"^\S*a\.gz cannot be read: [^\n]*\.$") as caught:
        list(stream)
    assert not isinstance(caught.value, TransientError)  # it will be no better later


def test_a_named_pipe_is_read_like_a_file(tmp_path):
    """Catches --input=<(zstdcat corpus.zst) that is refused as no file."""
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a\nb\n",)).start()
    assert text_files.is_readable(tmp_path / "pipe") and not text_files.is_readable(tmp_path)
    assert count_lines(tmp_path / "pipe") is None
    found = open_lines(tmp_path / "pipe")
    assert (list(found), found.fraction_read) == (["a", "b"], None)


@pytest.mark.parametrize("name", ["a", "a.gz", "a.xz"])
def test_unreadable_files_are_refused_in_one_sentence(name, tmp_path):
    """Catches a stack trace for a missing, truncated or misnamed file."""
    path = tmp_path / name
    whole = PACK[path.suffix](b"text " * 1000)
    for content in (None, b"no such format", whole[: len(whole) // 2]):
        if content is not None and path.suffix:
            path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^\S*/a\S* cannot be read: [^\n]*\.$"):
            read_text(path)


def test_a_validation_split_goes_by_any_of_its_usual_names(tmp_path):
    """Catches val.* that is not found where validation is asked for, and another split's files."""
    assert text_files.name_in_folder(tmp_path, "validation") == "validation"  # for the message
    for name in ("dev.en", "val.en.gz", "train.en"):
        (tmp_path / name).touch()
    assert text_files.name_in_folder(tmp_path, "validation") == "val"
    assert text_files.name_in_folder(tmp_path, "dev") == "dev"
    assert text_files.name_in_folder(tmp_path, "test") == "test"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="there is no /proc")
def test_a_file_that_is_no_text_but_memory_is_named():
    """Catches a traceback, and a sentence that does not say which of several files it means."""
    for read in (count_lines, read_text):
        with pytest.raises(TransientError, match=r"^/proc/self/mem cannot be read: Input"):
            read("/proc/self/mem")


# ---- the name of a split, and the part of it that is meant

SPLITS = {
    "train": ("train", 0.0, 1.0),
    "train[:]": ("train", 0.0, 1.0),
    "train[90%:]": ("train", 0.9, 1.0),
    "train[10%:90%]": ("train", 0.1, 0.9),
    "my-split.v2[:5%]": ("my-split.v2", 0.0, 0.05),
}
BAD = [
    "train[", "train[]", "train[90%]", "train[:90]", "train[:0.9]", "train[:0%]", "train[:101%]",
    "train[90%:10%]", "train[100%:]", "train[-10%:]", "[:90%]", "train[:90%][:50%]", "",
]  # fmt: skip


def test_a_part_is_named_as_in_tfds():
    """Catches a bound that is read as the other one, and a slice that is a part of the name."""
    assert {text: parse_split(text) for text in SPLITS} == SPLITS
    for text in BAD:
        with pytest.raises(ValueError, match=rf"^A split is NAME, .*, not '{re.escape(text)}'\.$"):
            parse_split(text)


@pytest.mark.parametrize("number", [0, 1, 7, 99, 100, 1115394])
def test_parts_are_disjoint_and_together_everything(number):
    """Catches an item that two parts share, or that neither has, wherever the cut is."""
    items = range(number)
    for percent in range(1, 100):
        _, *first = parse_split(f"train[:{percent}%]")
        _, *last = parse_split(f"train[{percent}%:]")
        assert part_of(items, *first) == items[: number * percent // 100]
        assert part_of(items, *last) == items[number * percent // 100 :]
    fifths = [part_of(items, *parse_split(f"t[{a}%:{a + 20}%]")[1:]) for a in range(0, 100, 20)]
    assert list(itertools.chain(*fifths)) == list(items)
