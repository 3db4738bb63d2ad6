"""text_files.py: text of any size, a line at a time, whatever its bytes."""

import gzip
import io
import lzma
import os
import random
import threading

import pytest

from transformer.data.files import text as text_files
from transformer.data.files.text import LONGEST_LINE, Lines, count_lines, decode_text, open_lines
from transformer.files.reading import TransientError

DATA = b"\xef\xbb\xbfa\r\n\nb\xff\n c \x00\n\xe2\x80\xa8d\xc2\x85\n\r\nlast"
TEXTS = ["a", "", "b\ufffd", " c \x00", "\u2028d\u0085", "", "last"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gz", "xz"])
def test_a_stream_gives_what_the_whole_file_gives(pack, tmp_path):
    """Catches a stream that treats BOM, CR, bad bytes or the last line in another way."""
    path = tmp_path / {bytes: "a", gzip.compress: "a.gz", lzma.compress: "a.xz"}[pack]
    path.write_bytes(pack(DATA))
    found = open_lines(path)
    assert list(found) == decode_text(DATA).lines == TEXTS
    assert found.repairs() == {f"lines that are not UTF-8, bytes replaced ({path} line 3)": 1}
    assert found.fraction_read == 1.0


def test_members_of_gz_are_read_one_after_the_other(tmp_path):
    """Catches a corpus of which only the first of several joined files is translated."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert list(open_lines(tmp_path / "a.gz")) == ["a", "bc", "d"]


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
    assert found.repairs() == {"lines longer than 1 MiB, cut there (a line 1)": 1}


def test_a_file_that_breaks_off_gives_its_lines_and_then_a_sentence(tmp_path):
    """Catches a truncated archive whose translation seems complete."""
    packed = gzip.compress(b"".join(b"%d\n" % n**9 for n in range(20_000)))
    (tmp_path / "a.gz").write_bytes(packed[: len(packed) // 2])
    stream = iter(open_lines(tmp_path / "a.gz"))
    assert [next(stream) for _ in range(3)] == ["0", "1", "512"]
    with pytest.raises(ValueError, match=r"^\S*a\.gz cannot be read: [^\n]*\.$") as caught:
        list(stream)
    assert not isinstance(caught.value, TransientError)  # it will be no better later


def test_the_share_that_was_read_is_that_of_the_packed_file(tmp_path):
    """Catches an estimate of the time left that counts unpacked bytes."""
    (tmp_path / "a.gz").write_bytes(
        gzip.compress(random.Random(0).randbytes(2**20).hex("\n", 16).encode())
    )
    found = open_lines(tmp_path / "a.gz")
    stream = iter(found)
    for _ in range(2**20 // 16 // 2):
        next(stream)
    assert 0.4 < found.fraction_read < 0.6


def test_a_named_pipe_is_read_like_a_file(tmp_path):
    """Catches --input=<(zstdcat corpus.zst) that is refused as no file."""
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"a\nb\n",)).start()
    assert text_files.is_readable(tmp_path / "pipe") and not text_files.is_readable(tmp_path)
    assert count_lines(tmp_path / "pipe") is None
    found = open_lines(tmp_path / "pipe")
    assert (list(found), found.fraction_read) == (["a", "b"], None)


@pytest.mark.parametrize(("data", "count"), [(b"", 0), (b"\n", 1), (b"a", 1), (b"a\n\nb", 3)])
def test_lines_are_counted_as_they_are_read(data, count, tmp_path):
    """Catches equal files that are refused because one lacks its last line feed."""
    (tmp_path / "a").write_bytes(data)
    assert count_lines(tmp_path / "a") == len(list(open_lines(tmp_path / "a"))) == count
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    assert count_lines(tmp_path / "a.gz") is None


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
    for read in (count_lines, lambda path: list(open_lines(path))):
        with pytest.raises(TransientError, match=r"^/proc/self/mem cannot be read: Input"):
            read("/proc/self/mem")
