"""Chunks of a text, the formats of their lines, and the progress of a job."""

import io
import json
from itertools import count, islice

import pytest

from transformer.console import LiveLine
from transformer.data.files.text import Lines
from transformer.inference.chunks import Chunk, read_chunks, stream_sizes
from transformer.inference.file_job import make_compressor
from transformer.inference.job_progress import JobProgress
from transformer.inference.translation import Translation
from transformer.inference.translation_job import format_chunk

AWKWARD = 'a\tb\nc\rd"\\\u2028\u0085\x00\x1c\ud800{}'


def make_lines(texts, name="a"):
    return Lines(io.BytesIO("".join(f"{text}\n" for text in texts).encode()), name)


class Endless:
    """Lines without end; `taken` counts those that were read."""

    name, fraction_read, taken = "endless", None, 0

    def __iter__(self):
        for number in count():
            self.taken += 1
            yield str(number)


def test_chunks_hold_every_line_once_and_in_order():
    """Catches a line that is lost or doubled where chunks meet."""
    texts = [str(n) for n in range(10)]
    found = list(read_chunks(make_lines(texts), sizes=iter([3] * 9)))
    assert [chunk.lines for chunk in found] == [texts[:3], texts[3:6], texts[6:9], texts[9:]]
    assert [(c.start, c.end) for c in found] == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert [c.number for c in found] == [0, 1, 2, 3]
    assert list(read_chunks(make_lines([]))) == []
    assert [c.lines for c in read_chunks(make_lines(["", ""]))] == [["", ""]]


def test_nothing_is_read_ahead_of_the_chunk_that_is_asked_for():
    """Catches a corpus that is read into memory."""
    text = Endless()
    found = read_chunks(text, sizes=iter([5, 7]))
    assert text.taken == 0
    next(found), next(found)
    assert text.taken == 12


def test_the_first_chunks_of_a_stream_are_small():
    """Catches a pipe that shows nothing until thousands of lines are done."""
    assert list(islice(stream_sizes(300), 5)) == [64, 128, 256, 300, 300]
    assert list(islice(stream_sizes(10), 2)) == [10, 10]


def test_a_checksum_is_of_everything_that_a_result_depends_on():
    """Catches chunks that count as finished although a line or a prefix has changed."""
    variants = [
        Chunk(0, 0, ["a", "b"]), Chunk(0, 0, ["a", "c"]), Chunk(0, 0, ["a", "b", ""]),
        Chunk(0, 0, ["a", "b"], ["x", ""]), Chunk(0, 0, ["a", "b"], ["", "x"]),
    ]  # fmt: skip
    assert len({chunk.checksum for chunk in variants}) == len(variants)
    assert Chunk(7, 9, ["a", "b"], fraction_read=0.5).checksum == variants[0].checksum


@pytest.mark.parametrize(("left", "right"), [(5, 3), (3, 5), (4, 5), (0, 1)])
def test_unequal_texts_are_refused_with_both_counts(left, right):
    """Catches zip(), with which the longer text loses its end."""
    sides = make_lines(["x"] * left, "left"), make_lines(["y"] * right, "right")
    with pytest.raises(ValueError, match=f"left has {left} lines and right has {right}; they must"):
        list(read_chunks(*sides, sizes=iter([2] * 9)))


# ---- formats


@pytest.mark.parametrize(
    ("style", "fields"), [("text", 1), ("scores", 2), ("nbest", 3), ("log_probs", 2)]
)
def test_nothing_in_a_translation_breaks_a_line_of_text(style, fields):
    """Catches a tab or a line feed in a translation, which shifts all that follow."""
    chunk = Chunk(2, 40, ["x", "y"], ["x", "y"])
    data = format_chunk(style, chunk, [[Translation(AWKWARD, -1.5, -2.0, [1])]] * 2)
    *rows, rest = data.split(b"\n")
    assert rest == b"" and len(rows) == 2 and b"\r" not in data
    assert [len(row.split(b"\t")) for row in rows] == [fields] * 2
    assert (rows[1].startswith(b"41\t"), b"-1.500000" in rows[1]) == (style == "nbest", fields > 1)


def test_jsonl_holds_everything_as_it_is():
    """Catches lines that no reader of JSON takes: surrogates, infinity, control characters."""
    best = [Translation(AWKWARD, -1.5, -2.0, [1]), Translation("", float("-inf"), float("nan"))]
    data = format_chunk("jsonl", Chunk(0, 0, [AWKWARD]), [best])
    assert data.count(b"\n") == 1
    record = json.loads(data, parse_constant=lambda name: pytest.fail(name))
    mended = AWKWARD.replace("\ud800", "?")
    assert record["source"] == record["translations"][0]["text"] == mended
    assert record["translations"][0] == {"text": mended, "score": -1.5, "log_prob": -2.0}
    assert record["translations"][1] == {"text": "", "score": None, "log_prob": None}
    data = format_chunk("log_probs_jsonl", Chunk(0, 0, ["a"], ["b"]), [best[:1]])
    wanted = {"source": "a", "target": "b", "score": -1.5, "log_prob": -2.0, "pieces": 1}
    assert json.loads(data) == wanted


def test_packed_parts_are_the_same_bytes_at_any_time():
    """Catches the clock in the header of gzip: a resumed job would differ from an undisturbed."""
    assert make_compressor("a.gz")(b"text")[4:8] == b"\0\0\0\0"
    assert make_compressor("a.de")(b"text") == b"text"


# ---- progress


def test_the_pace_leaves_out_the_first_chunk_and_what_was_done_before():
    """Catches a time left that counts compiling, or lines that were done the day before."""
    now, out, said = [0.0], io.StringIO(), []
    line = LiveLine(out, clock=lambda: now[0])
    progress = JobProgress([], said.append, line, clock=lambda: now[0])

    def add(number, seconds, is_finished=False):
        now[0] += seconds
        text = [""] + ["x"] * 99
        chunk = Chunk(number, number * 100, text, fraction_read=(number + 1) / 20)
        progress.add(chunk, is_finished, None if is_finished else 500, seconds)

    for number in range(8):
        add(number, 0.001, is_finished=True)
    add(8, 60)  # it compiles
    for number in range(9, 12):
        add(number, 5)
    *_, last = out.getvalue().splitlines()
    assert " ".join(last.split()) == "1,100 lines 55.0% 20 lines/s 100 tokens/s 45 s left"
    progress.finish("a.de")
    assert said == ["1,200 lines in 1 min 15 s, 20 lines/s; 800 already done; 12 empty: a.de"]


def test_bad_lines_are_reported_at_once_and_counted_at_the_end():
    """Catches a Latin-1 corpus that is noticed after hours, or a warning for each line of it."""
    text, said = Lines(io.BytesIO(b"ok\n\xff\n" * 10), "a"), []
    progress = JobProgress([text], said.append)
    for chunk in read_chunks(text, sizes=iter([4] * 9)):
        progress.add(chunk, False, 1, 0.1)
    progress.finish()
    assert said == [
        "warning: 2 lines that are not UTF-8, bytes replaced (a line 2, 4)",
        "warning: 10 lines that are not UTF-8, bytes replaced (a line 2, 4, 6, 8, 10, …)",
    ]
