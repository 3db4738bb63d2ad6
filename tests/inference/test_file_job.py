"""A job over a text file: no line is translated twice, lost or out of order."""

import errno
import gzip
import io
import json
import lzma
import os
import signal
import threading
from unittest.mock import MagicMock

import jax
import pytest

from tests.helpers.commands import restored_signals
from tests.helpers.fake_translator import FakeTranslator, Killed
from tests.helpers.full_disk import full_after
from transformer.cli.output_files import check_answers_file
from transformer.exit_codes import ResumableError
from transformer.files.parts import Parts
from transformer.inference import run_job as run_job_module
from transformer.inference.answer_job import Answerer, AnswerJob
from transformer.inference.chunks import Chunk
from transformer.inference.resumable_output import ResumableFile, Stream, open_stream
from transformer.inference.run_job import run_job
from transformer.inference.translation_job import TranslationJob
from transformer.parallel import hosts
from transformer.parallel.stopping import end_on_signals

TEXTS = [f"line {n} ä" for n in range(10)] + ["", "  ", "end"]
BACKWARDS = "".join(f"{text[::-1]}\n" for text in TEXTS).encode()


@pytest.fixture(autouse=True)
def signals():
    """Restores the handlers of the test run."""
    with restored_signals():
        yield


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").write_text("\n".join(TEXTS))
    return tmp_path / "in"


def make_job(source, output="out", **changes):
    output = str(source.parent / output) if output and "/" not in output else output
    return TranslationJob(**{"input": str(source), "output": output, "chunk_lines": 3} | changes)


def run_to_end(job, translator=None, said=None):
    """Runs a job to its end; returns the translator."""
    translator = translator or FakeTranslator()
    job.check()
    say = said.append if said is not None else str
    assert run_job(translator, job, say=say, command="python eval.py") == 0
    return translator


def parts_of(source):
    """Returns the names of the finished chunks."""
    return sorted(p.name for p in source.with_name("out.parts").glob("0*"))


@pytest.mark.parametrize("name", ["out", "out.gz", "out.xz"])
def test_a_file_has_a_line_for_each_line_in_order(name, source):
    """Catches chunks joined in another order, and a folder that is left behind."""
    run_to_end(make_job(source, name))
    unpack = {"out": bytes, "out.gz": gzip.decompress, "out.xz": lzma.decompress}[name]
    assert unpack(source.with_name(name).read_bytes()) == BACKWARDS
    assert {path.name for path in source.parent.iterdir()} == {"in", name}
    source.write_bytes(b"")
    run_to_end(make_job(source, name))
    assert unpack(source.with_name(name).read_bytes()) == b""  # gz and xz have a header


def test_a_killed_job_is_resumed_from_its_finished_chunks(source):
    """Catches a restart from the beginning, and bytes that differ from an undisturbed run's."""
    run_to_end(make_job(source, "undisturbed.gz"))
    job, said = make_job(source, "out.gz"), []
    with pytest.raises(Killed):
        run_to_end(job, FakeTranslator(dies_at=TEXTS[7]))
    assert not source.with_name("out.gz").exists()
    again = run_to_end(job, said=said)
    assert again.sentences == TEXTS[6:]
    assert "resuming: 2 chunks done already" in said[0]
    undisturbed = source.with_name("undisturbed.gz").read_bytes()
    assert source.with_name("out.gz").read_bytes() == undisturbed


def test_a_kill_before_the_file_is_there_costs_no_chunk(source, monkeypatch):
    """Catches a finished corpus that is translated anew because its file could not be named."""

    def kill_at_the_file(temporary, path, replace=os.replace):
        if path.name == "out":
            raise Killed
        replace(temporary, path)

    job = make_job(source)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", kill_at_the_file)
        run_to_end(job)
    assert run_to_end(job).sentences == []
    assert source.with_name("out").read_bytes() == BACKWARDS
    assert not source.with_name("out.parts").exists()


def test_chunks_that_could_not_be_removed_are_of_no_job(source, monkeypatch):
    """Catches a file replaced without being asked, or made of chunks of another text."""

    def fail(path, **options):
        raise OSError(errno.EIO, "Input/output error", str(path))

    job = make_job(source)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", fail)
        with pytest.warns(UserWarning, match="out.parts could not be removed: Input/output error"):
            run_to_end(job)
    assert source.with_name("out").read_bytes() == BACKWARDS
    with pytest.raises(ValueError, match="add --overwrite"):
        check_answers_file(job.output, [], "a run", may_replace=False)
    (source.with_name("out.parts") / "000000.00c0ffee").write_text("of a job that is done")
    source.write_text("other\n")
    run_to_end(job)
    assert source.with_name("out").read_text() == "rehto\n"
    assert not source.with_name("out.parts").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"options": {"beam_size": 2}}, "options {}, not {'beam_size': 2}"),
        ({"jsonl": True}, "format text, not jsonl"),
        ({"chunk_lines": 4}, "chunk_lines 3, not 4"),
    ],
)
def test_a_job_is_not_resumed_with_other_options(changes, said, source):
    """Catches a file whose beginning was made with other options than its end."""
    with pytest.raises(Killed):
        run_to_end(make_job(source), FakeTranslator(dies_at=TEXTS[7]))
    before = parts_of(source)
    with pytest.raises(ValueError, match="name another --output, or delete the folder") as caught:
        run_to_end(make_job(source, **changes))
    assert said in str(caught.value) and "\n" not in str(caught.value)
    other = FakeTranslator(checkpoint="best (2)")
    with pytest.raises(ValueError, match=r"checkpoint fake \(1\), not best \(2\)"):
        run_to_end(make_job(source), other)
    assert parts_of(source) == before


@pytest.mark.parametrize(
    "texts", [["other", *TEXTS[1:]], TEXTS[:6], TEXTS[:5]], ids=["changed", "shorter", "cut"]
)
def test_a_job_is_not_resumed_on_another_text(texts, source):
    """Catches translations of lines that have changed since, and parts of a longer text deleted."""
    with pytest.raises(Killed):
        run_to_end(make_job(source), FakeTranslator(dies_at=TEXTS[10]))
    source.write_text("\n".join(texts))
    with pytest.raises(ValueError, match="belongs to another input"):
        run_to_end(make_job(source))
    assert len(parts_of(source)) == 3
    assert not source.with_name("out").exists()


def test_two_jobs_cannot_write_the_same_file(source):
    """Catches two runs that do everything twice and remove each other's parts."""
    job, translator = make_job(source), FakeTranslator()
    first = ResumableFile(job.output, job.identity(translator))
    first.open()
    with pytest.raises(ValueError, match=f"in use by process {os.getpid()} .*another --output"):
        run_to_end(job)
    assert first.folder.is_dir()
    first.close()
    assert not first.folder.exists()
    run_to_end(job)


def test_a_full_disk_is_one_sentence_and_costs_no_chunk(source, monkeypatch):
    """Catches a stack trace, a half-written part, and parts that are lost with it."""
    job = make_job(source)
    with monkeypatch.context() as patch:
        full_after(patch, 3)
        with pytest.raises(
            ValueError, match=r"\(No space left on device\).*; free some space and start"
        ):
            run_to_end(job)
    assert len(parts_of(source)) == 2  # and no .tmp
    assert run_to_end(job).sentences == TEXTS[6:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_at_once_and_names_the_command_that_resumes_it(
    number, source, monkeypatch
):
    """Catches a signal that is noticed after hours, chunks lost by it, and a wrong exit code."""
    monkeypatch.setattr(threading, "Timer", MagicMock())  # which ends this process otherwise
    end_on_signals()
    translator, said = FakeTranslator(), []
    translate, code = translator.translate, 130 if number == signal.SIGINT else 75

    def stop_at(sentences, **options):
        if TEXTS[7] in sentences:
            os.kill(os.getpid(), number)
            pytest.fail("the signal was not noticed")
        return translate(sentences, **options)

    translator.translate = stop_at
    job = make_job(source)
    assert run_job(translator, job, say=said.append, command="python eval.py --x") == code
    assert said == ["stopped; finished chunks are kept; resume with: python eval.py --x"]
    assert len(parts_of(source)) == 2


def test_an_error_before_the_first_chunk_leaves_nothing_behind(source):
    """Catches a folder of parts for every mistyped option, and a file cut to nothing."""
    source.with_name("out").write_text("of yesterday")
    (source.parent / "p").write_text("one\n" * 2)
    (source.parent / "q.gz").write_bytes(gzip.compress(b"one\n" * 2))
    for name in ("p", "q.gz"):  # found at once, and in the first chunk
        with pytest.raises(ValueError, match=r"in has 13 lines and \S+ has 2; they must pair"):
            run_to_end(make_job(source, prefixes=str(source.parent / name)))
    assert source.with_name("out").read_text() == "of yesterday"
    assert not source.with_name("out.parts").exists()


def test_a_folder_of_the_same_name_keeps_what_is_not_ours(source):
    """Catches a user's files that are deleted with the parts."""
    folder = source.with_name("out.parts")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match="Directory not empty"):
        run_to_end(make_job(source))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_formats_prefixes_and_scores(source, monkeypatch):
    """Catches flags that are read and not heeded."""
    (source.parent / "other").write_text("".join(f"{n}\n" for n in range(13)))
    other = str(source.parent / "other")

    def first_line(**changes):
        run_to_end(make_job(source, **changes))
        return source.with_name("out").read_text().split("\n")[0]

    assert first_line(scores=True) == "ä 0 enil\t0.000000"
    run_to_end(make_job(source, nbest=2))
    rows = source.with_name("out").read_text().splitlines()
    assert rows[6:8] == ["3\tä 3 enil\t0.000000", "3\tä 3 enil\t-0.500000"]
    assert first_line(prefixes=other) == "0ä 0 enil"
    assert first_line(score=other) == "-1.000000\t-8.000000"
    assert json.loads(first_line(score=other, jsonl=True))["pieces"] == 2
    record = json.loads(first_line(jsonl=True, nbest=3))
    assert record["source"] == "line 0 ä" and len(record["translations"]) == 3


def test_the_lines_of_a_refused_chunk_are_named(source):
    """Catches "a prefix is too long" that does not say which of a million."""
    translator = FakeTranslator()

    def refuse(sentences, **options):
        if TEXTS[7] in sentences:
            raise ValueError("A prefix is too long.")
        return translator.score(sentences, sentences)

    translator.translate = refuse
    with pytest.raises(ValueError, match=r"in, lines 7 to 9: A prefix is too long\.$"):
        run_to_end(make_job(source), translator)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output": "nowhere/out"}, "a folder that exists, not nowhere/out"),
        ({"output": "/"}, "--output must be a file"),
        ({"output": "s3://bucket/out"}, "--output must be a file"),
    ],
)
def test_impossible_jobs_are_refused(changes, said, source):
    """Catches hours of work that end with a path that cannot be written."""
    with pytest.raises(ValueError, match=said):
        make_job(source, **changes).check()


# ---- streams


def test_a_stream_is_written_line_by_line_as_chunks_end(source, monkeypatch):
    """Catches translations that a pipe gets only at the end, or out of order."""

    class Pipe(io.BytesIO):
        flushed = ()

        def flush(self):
            self.flushed += (self.getvalue(),)

    pipe = Pipe()
    monkeypatch.setattr(run_job_module, "open_stream", lambda _: Stream(pipe, "Standard output"))
    run_to_end(make_job(source, ""))
    assert pipe.getvalue() == BACKWARDS
    assert [data.count(b"\n") for data in pipe.flushed] == [3, 6, 9, 12, 13]


def test_pipes_and_devices_are_written_to(tmp_path):
    """Catches /dev/null or a named pipe that becomes a plain file."""
    assert open_stream(str(tmp_path / "new")) is None
    (tmp_path / "old").write_text("")
    assert open_stream(str(tmp_path / "old")) is None
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    stream = open_stream(str(tmp_path / "pipe"))
    stream.write(Chunk(0, 0, ["x"]), b"x\n")
    del stream
    reader.join()
    assert found == [b"x\n"]


def test_a_closed_pipe_is_no_full_disk():
    """Catches a pipe to head that ends in an error, and a full disk that ends in silence."""

    class Broken(io.BytesIO):
        def __init__(self, error):
            super().__init__()
            self.error = error

        def write(self, data):
            raise self.error

    with pytest.raises(BrokenPipeError):
        Stream(Broken(BrokenPipeError()), "x").write(None, b"")
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ValueError, match=r"^x cannot be written \(No space left on device\)"):
        Stream(Broken(full), "x").write(None, b"")


# ---- answers of other tasks


def answer_job(source):
    return AnswerJob(str(source), str(source.with_name("out")), chunk_lines=3)


def test_answers_are_one_line_each(source):
    """Catches answers with line breaks, and answers that move up by a line."""
    run_to_end(
        answer_job(source), Answerer(answer=lambda x: [f"{t[::-1]}\n" for t in x], identity={})
    )
    expected = BACKWARDS.replace(b"\n", b" \n")
    assert source.with_name("out").read_bytes() == expected
    with pytest.raises(ValueError, match="lines 1 to 3: the task gave 2 answers"):
        run_to_end(answer_job(source), Answerer(answer=lambda texts: texts[1:], identity={}))


def test_answers_of_another_model_are_not_mixed(source):
    """Catches a file whose end is of another checkpoint or seed than its beginning."""

    def answer(texts):
        if TEXTS[7] in texts:
            raise Killed
        return texts

    with pytest.raises(Killed):
        run_to_end(answer_job(source), Answerer(answer=answer, identity={"seed": 1}))
    with pytest.raises(ValueError, match="seed 1, not 2: start with the same"):
        run_to_end(answer_job(source), Answerer(answer=answer, identity={"seed": 2}))


def test_a_truncated_archive_is_no_whole_file(source):
    """Catches the output for what could be read, under the name of all."""
    packed = source.with_name("in.gz")
    packed.write_bytes(gzip.compress(source.read_bytes())[:-9])
    with pytest.raises(ValueError, match=r"in\.gz cannot be read"):
        run_to_end(make_job(packed))
    assert not source.with_name("out").exists()


# ---- several hosts


@pytest.fixture
def be_host(monkeypatch):
    """Makes this process the host of a number, of several."""
    monkeypatch.setattr(hosts, "check_same", lambda what, make_data: make_data())
    monkeypatch.setattr(hosts, "wait_for_all", lambda what: None)

    def be(number, num_hosts):
        monkeypatch.setattr(jax, "process_index", lambda: number)
        monkeypatch.setattr(jax, "process_count", lambda: num_hosts)

    return be


def test_hosts_share_a_file_and_do_nothing_twice(source, be_host, monkeypatch):
    """Catches a file joined without the chunks of a slow host, or by the one that is not first."""
    job, first, last = make_job(source), FakeTranslator(), FakeTranslator()
    wait_for = Parts.wait_for

    def run_the_last(parts, wanted, patience, name):
        be_host(1, 2)
        with monkeypatch.context() as patch:
            patch.setattr(ResumableFile, "finish", lambda *_: None)  # which waits for the first
            run_to_end(job, last)
        be_host(0, 2)
        return wait_for(parts, wanted, 0, name)

    monkeypatch.setattr(Parts, "wait_for", run_the_last)
    be_host(0, 2)
    run_to_end(job, first)
    assert first.sentences == TEXTS[:3] + TEXTS[6:9] + TEXTS[12:]
    assert last.sentences == TEXTS[3:6] + TEXTS[9:12]
    assert source.with_name("out").read_bytes() == BACKWARDS
    assert not source.with_name("out.parts").exists()


def test_a_host_that_does_not_come_is_given_up(source, be_host, monkeypatch):
    """Catches a wait without end, and chunks of the hosts that are well which are lost with it."""
    job = make_job(source)
    monkeypatch.setattr(hosts, "WAIT_SECONDS", 0)
    be_host(0, 2)
    with pytest.raises(ResumableError, match=r"2 chunks of other hosts missing .*every host again"):
        run_to_end(job)
    be_host(0, 1)
    assert run_to_end(job).sentences == TEXTS[3:6] + TEXTS[9:12]
    assert source.with_name("out").read_bytes() == BACKWARDS
