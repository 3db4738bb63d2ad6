"""A job over a text file: no line is translated twice, lost or out of order."""

import errno
import gzip
import io
import json
import lzma
import os
import sys
import threading
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import jax
import pytest

from tests.helpers.fake_translator import FakeTranslator, Killed
from transformer.cli.process import explain_error
from transformer.data.files.text import Repairs
from transformer.exit_codes import ResumableError
from transformer.inference import file_job
from transformer.inference.file_job import Chunk, ResumableFile
from transformer.inference.translation import Translation, format_rows
from transformer.parallel import hosts

TEXTS = [f"line {n} ä" for n in range(10)] + ["", "  ", "end"]
BACKWARDS = "".join(f"{text[::-1]}\n" for text in TEXTS).encode()
AWKWARD = 'a\tb\nc\rd"\\\u2028\u0085\x00\x1c\ud800{}'


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_text("\n".join(TEXTS))
    return tmp_path / "in"


def run(source, translator=None, output="out", **changes):
    translator = translator or FakeTranslator()
    output = output and str(source.with_name(output))
    file_job.translate_file(translator, str(source), output, **{"chunk_lines": 3} | changes)
    return translator


def answer(source, function):
    model = SimpleNamespace(answers=function, identity=dict, num_truncated=0)
    file_job.answer_file(model, str(source), str(source.with_name("out")), chunk_lines=3)


def kill(source, at=TEXTS[7], **changes):
    """Starts a job that is killed at a sentence."""
    with pytest.raises(Killed):
        run(source, FakeTranslator(dies_at=at), **changes)


def parts_of(source):
    return sorted(p.name for p in source.with_name("out.parts").glob("0*"))


def test_chunks_are_read_one_by_one_and_known_by_their_text():
    """Catches a corpus read into memory, and chunks that count as finished although a line or a
    prefix has changed."""
    taken = []
    endless = MagicMock(fraction_read=None, repairs=Repairs())
    endless.__iter__.return_value = (taken.append(n) or str(n) for n in count())
    chunks = file_job.read_chunks([endless], [5, 7], Mock())
    assert [len(chunk.lines) for chunk in islice(chunks, 2)] == [5, 7] and len(taken) == 12
    texts = [["a", "b"]], [["a", "c"]], [["a", "b", ""]], [["a", "b"], ["x", ""]], [["a"], ["bx"]]
    assert len({Chunk(0, 0, *text).checksum for text in texts}) == len(texts)
    assert Chunk(7, 9, ["a", "b"]).checksum == Chunk(0, 0, ["a", "b"]).checksum


@pytest.mark.parametrize("name", ["out", "out.gz", "out.xz"])
def test_a_file_has_a_line_for_each_line_in_order(name, source, capsys):
    """Catches chunks joined in another order, and a folder that is left behind."""
    run(source, output=name)
    assert capsys.readouterr().err.startswith("13 lines in 0 s: ")
    unpack = {"out": bytes, "out.gz": gzip.decompress, "out.xz": lzma.decompress}[name]
    assert unpack(source.with_name(name).read_bytes()) == BACKWARDS
    assert {path.name for path in source.parent.iterdir()} == {"in", name}
    source.write_bytes(b"")
    run(source, output=name)
    assert unpack(source.with_name(name).read_bytes()) == b""  # gz and xz have a header


def test_a_killed_job_is_resumed_from_its_finished_chunks(source, capsys):
    """Catches a restart from the beginning, and bytes that differ from an undisturbed run's."""
    run(source, output="undisturbed.gz")
    assert file_job.COMPRESSORS[".gz"](b"text")[4:8] == b"\0\0\0\0"  # no clock in the header
    kill(source, output="out.gz")
    assert not source.with_name("out.gz").exists()
    capsys.readouterr()
    assert run(source, output="out.gz").sentences == TEXTS[6:]
    assert "resuming: 2 chunks done already\n" in capsys.readouterr().err
    undisturbed = source.with_name("undisturbed.gz").read_bytes()
    assert source.with_name("out.gz").read_bytes() == undisturbed


def test_a_kill_before_the_file_is_there_costs_no_chunk(source, monkeypatch):
    """Catches a finished corpus that is translated anew because its file could not be named."""

    def kill_at_the_file(temporary, path, replace=os.replace):
        if path.name == "out":
            raise Killed
        replace(temporary, path)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", kill_at_the_file)
        run(source)
    assert run(source).sentences == []
    assert source.with_name("out").read_bytes() == BACKWARDS
    assert not source.with_name("out.parts").exists()


def test_a_job_is_not_resumed_with_other_options(source):
    """Catches a file whose beginning was made with other options or weights than its end."""
    kill(source)
    before = parts_of(source)
    for changes, said in (
        ({"beam_size": 2}, "options {}, not {'beam_size': 2}"),
        ({"jsonl": True}, "jsonl False, not True"),
        ({"chunk_lines": 4}, "chunk_lines 3, not 4"),
        ({"translator": FakeTranslator(checkpoint="best")}, "checkpoint fake (1), not best"),
    ):
        with pytest.raises(ValueError, match="name another --output, or delete the f") as caught:
            run(source, **changes)
        assert said in str(caught.value) and "\n" not in str(caught.value)
        assert parts_of(source) == before


@pytest.mark.parametrize("texts", [["changed", *TEXTS[1:]], TEXTS[:6], TEXTS[:5]])
def test_a_job_is_not_resumed_on_another_text(texts, source):
    """Catches translations of lines that have changed since, and parts of a longer text deleted."""
    kill(source, at=TEXTS[10])
    source.write_text("\n".join(texts))
    with pytest.raises(ValueError, match=r"belongs to (another|a longer) input"):
        run(source)
    assert len(parts_of(source)) == 3
    assert not source.with_name("out").exists()


def test_two_jobs_cannot_write_the_same_file(source):
    """Catches two runs that do everything twice and remove each other's parts. Also a user's files
    that are deleted with the parts."""
    first = ResumableFile(str(source.with_name("out")), {})
    with first.opened():
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()} .*another --output"):
            run(source)
        assert first.folder.is_dir()
    assert not first.folder.exists()
    first.folder.mkdir()
    (first.folder / "notes.txt").write_text("mine")
    run(source)
    assert [path.name for path in first.folder.iterdir()] == ["notes.txt"]


def test_a_full_disk_is_one_sentence_and_costs_no_chunk(source, monkeypatch):
    """Catches a stack trace, a half-written part, and parts that are lost with it."""
    with monkeypatch.context() as patch:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        patch.setattr(os, "fsync", Mock(side_effect=[None, None, None, full]))
        with pytest.raises(OSError, match="No space left on device") as caught:
            run(source)
    assert explain_error(caught.value)[0].endswith("or written: No space left on device.")
    assert len(parts_of(source)) == 2  # and no .tmp
    assert run(source).sentences == TEXTS[6:]


def test_an_error_before_the_first_chunk_leaves_nothing_behind(source):
    """Catches a folder of parts for every mistyped option, and a file cut to nothing. Also the
    output for what could be read of a truncated archive, under the name of all."""
    (out := source.with_name("out")).write_text("of yesterday")
    (source.parent / "p").write_text("one\n" * 2)
    (source.parent / "q.gz").write_bytes(gzip.compress(b"one\n" * 2))
    (cut := source.with_name("in.gz")).write_bytes(gzip.compress(source.read_bytes())[:-9])
    for file, changes, said in (
        (source, {"prefixes": str(source.parent / "p")}, "13 lines .* 2 lines; they must pair"),
        (source, {"prefixes": str(source.parent / "q.gz")}, "differ in length"),
        (cut, {"chunk_lines": 99}, r"in\.gz cannot be read"),
    ):
        with pytest.raises(ValueError, match=said):  # at once, or in the first chunk
            run(file, **changes)
        assert out.read_text() == "of yesterday"
        assert not source.with_name("out.parts").exists()


def test_an_output_that_would_be_lost_is_refused(source):
    """Catches an input that its translation replaces, and a file that was not to be replaced; also
    a stopped job that may not go on."""
    output = source.with_name("out")
    for link in (output.symlink_to, output.hardlink_to):
        link(source)
        with pytest.raises(ValueError, match="is read, too, and would be lost"):
            run(source)
        output.unlink()
    output.write_text("of yesterday")
    with pytest.raises(ValueError, match=r"exists: .* add --overwrite"):
        file_job.check_files(str(output), may_replace=False)
    kill(source)
    file_job.check_files(str(output), may_replace=False)


def test_bad_lines_are_reported_at_once_and_counted_at_the_end(source, capsys):
    """Catches a Latin-1 corpus that is noticed after hours, or a warning for each line of it."""
    source.write_bytes(b"ok\n\xff\n" * 10)
    run(source)
    first, last, _ = capsys.readouterr().err.splitlines()
    assert first == f"warning: 1 lines that are not UTF-8, bytes replaced ({source} line 2)"
    assert last.startswith("warning: 10 lines") and last.endswith("line 2, 4, 6, 8, 10, …)")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_stream_is_written_as_chunks_end(is_terminal, source, monkeypatch, capsys):
    """Catches translations that a pipe gets only at the end, commands to a terminal, a prompt in
    the log of a pipe, and a person who is not told what to type, or not answered after a line."""

    class Pipe(io.BytesIO):
        isatty = lambda _: is_terminal  # noqa: E731

        def flush(self):
            counts.append(self.getvalue().count(b"\n"))

    pipe, counts = Pipe(), []
    monkeypatch.setattr(file_job, "open_stream", lambda _: pipe)
    source.write_text("\n".join([*TEXTS[:-1], "\x1b[31m"]))
    run(source, output="")
    assert pipe.getvalue().endswith(b"m13[\\x1b\n" if is_terminal else b"m13[\x1b\n")
    source.write_text("a\n" * 700)
    run(source, output="", chunk_lines=300)
    assert counts == [3, 6, 9, 12, 13, *(13 + n for n in (64, 192, 448, 700))]
    source.write_text("a\nb")
    with source.open() as file:
        stdin = SimpleNamespace(isatty=lambda: is_terminal, fileno=file.fileno, closed=False)
        monkeypatch.setattr(sys, "stdin", stdin)
        run(Path("-"), output="")
    assert counts[-2:] == [714 if is_terminal else 713, 715]
    assert ("Type a text per line; Ctrl-D ends.\n" in capsys.readouterr().err) is is_terminal


def test_pipes_and_devices_are_written_to(tmp_path):
    """Catches /dev/null or a named pipe that becomes a plain file."""
    assert file_job.open_stream(str(tmp_path / "new")) is None
    (tmp_path / "old").write_text("")
    assert file_job.open_stream(str(tmp_path / "old")) is None
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with file_job.open_stream(str(tmp_path / "pipe")) as stream:
        stream.write(b"x\n")
    reader.join()
    assert found == [b"x\n"]


def test_answers_are_one_line_each(source):
    """Catches answers with line breaks, answers that move up by a line, and an error that does not
    say which lines of a million it is of."""
    answer(source, lambda texts: [f"{text[::-1]}\n" for text in texts])
    assert source.with_name("out").read_bytes() == BACKWARDS.replace(b"\n", b" \n")
    with pytest.raises(ValueError, match="in, lines 7 to 9: the model gave 2 answers"):
        answer(source, lambda texts: texts[TEXTS[7] in texts :])


def test_a_host_does_its_share_and_gives_up_one_that_does_not_come(source, monkeypatch):
    """Catches a wait without end, and chunks of the hosts that are well which are lost with it."""
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "WAIT_SECONDS", 0)
        patch.setattr(hosts, "check_same", lambda what, make_data: make_data())
        patch.setattr(hosts, "wait_for_all", lambda what: None)
        patch.setattr(jax, "process_count", lambda: 2)
        with pytest.raises(ResumableError, match=r"2 chunks of other hosts missing .*every host"):
            run(source)
    assert run(source).sentences == TEXTS[3:6] + TEXTS[9:12]
    assert source.with_name("out").read_bytes() == BACKWARDS


def test_formats_prefixes_scores_and_alignments(source):
    """Catches flags that are read and not heeded, and an alignment of another line."""
    translator, other = FakeTranslator(), source.with_name("other")
    translator.align = lambda sources, targets: [[(0, len(text)), (1, 0)] for text in sources]
    other.write_text("".join(f"{n}\n" for n in range(13)))
    for changes, first, last in (
        ({"scores": True}, "ä 0 enil\t0.000000", "dne\t0.000000"),
        ({"nbest": 2}, "0\tä 0 enil\t0.000000", "12\tdne\t-0.500000"),
        ({"prefixes": str(other)}, "0ä 0 enil", "12dne"),
        ({"score": str(other)}, "-1.000000\t-8.000000", "-2.000000\t-3.000000"),
        ({"alignments": True}, "ä 0 enil\t0-8 1-0", "dne\t0-3 1-0"),
        ({"alignments": True, "score": str(source)}, "line 0 ä\t0-8 1-0", "end\t0-3 1-0"),
    ):
        run(source, translator, **changes)
        rows = source.with_name("out").read_text().splitlines()
        assert (rows[0], rows[-1]) == (first, last)
    run(source, translator, jsonl=True, alignments=True)
    assert '"alignment": "0-8 1-0"' in source.with_name("out").read_text().splitlines()[0]


def test_nothing_in_a_translation_breaks_a_line(source):
    """Catches a tab or a line feed in a translation, which shifts all that follow; and lines that
    no reader of JSON takes: surrogates, infinity, control characters."""
    best = [Translation(AWKWARD, -1.5, -2.0, [1]), Translation("", float("-inf"), float("nan"))]
    for form, fields in (({}, 1), ({"scores": True}, 2), ({"nbest": 1}, 3), ({"score": True}, 2)):
        (row,) = format_rows(41, "y", best[:1], **form)
        assert not {"\n", "\r"} & set(row) and len(row.split("\t")) == fields
        assert (row.startswith("41\t"), "-1.500000" in row) == ("nbest" in form, fields > 1)
    (row,) = format_rows(0, AWKWARD, best, jsonl=True)
    assert "\n" not in row
    record = json.loads(row, parse_constant=lambda name: pytest.fail(name))
    assert record["source"] == record["translations"][0]["text"] == AWKWARD
    assert record["translations"][0] == {"text": AWKWARD, "score": -1.5, "log_prob": -2.0}
    assert record["translations"][1] == {"text": "", "score": None, "log_prob": None}
    (row,) = format_rows(0, "a", best[:1], jsonl=True, score=True)
    wanted = {"source": "a", "target": AWKWARD, "score": -1.5, "log_prob": -2.0, "pieces": 1}
    assert json.loads(row) == wanted
    source.write_text("a")
    answer(source, lambda texts: [AWKWARD][: len(texts)])
    assert 'd"\\\u2028\u0085\x00\x1c?{}' in source.with_name("out").read_text()
