"""The answers of a task to the lines of a file: as safe as a translated corpus."""

import gzip
import lzma
import os
import signal

import pytest

from tests.helpers.commands import restored_signals
from tests.helpers.fake_translator import Killed
from tests.helpers.full_disk import full_after
from transformer.inference.answer_job import Answerer, AnswerJob
from transformer.inference.run_job import run_job

TEXTS = [f"line {n} ä" for n in range(10)]
ANSWERS = "".join(f"{text[::-1]} \n" for text in TEXTS).encode()


@pytest.fixture(autouse=True)
def signals():
    """Restores the handlers of the test run."""
    with restored_signals():
        yield


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_text("\n".join(TEXTS))
    return AnswerJob(str(tmp_path / "in"), str(tmp_path / "out"), chunk_lines=3)


def answerer(asked=None, at_line_7=lambda: None, **changes):
    """Says texts backwards, with a line break behind; calls `at_line_7` before it answers that."""

    def answer(texts):
        if TEXTS[7] in texts:
            at_line_7()
        if asked is not None:
            asked.extend(texts)
        return [f"{text[::-1]}\n" for text in texts]

    return Answerer(**{"answer": answer, "identity": {"checkpoint": "fake (1)"}} | changes)


def kill():
    raise Killed


def run(job, model, said=None):
    return run_job(model, job, say=(said if said is not None else []).append, command="eval.py")


def read(job):
    with open(job.output, "rb") as file:
        return file.read()


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_killed_answers_are_no_file_and_are_resumed(job, ending):
    """Catches half a file under the final name, and lines that are answered twice or otherwise."""
    job, asked, said = AnswerJob(job.input, job.output + ending, chunk_lines=3), [], []
    with pytest.raises(Killed):
        run(job, answerer(at_line_7=kill))
    assert not os.path.exists(job.output)
    assert run(job, answerer(asked), said) == 0
    assert asked == TEXTS[6:]
    assert "resuming: 2 chunks done already" in said[0]
    unpack = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress}[ending]
    assert unpack(read(job)) == ANSWERS
    assert not os.path.exists(f"{job.output}.parts")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGINT, 130)])
def test_a_signal_is_one_sentence_with_the_command_that_resumes(job, number, code):
    """Catches answers that die without a word, and a file of those that came before."""
    said = []
    model = answerer(at_line_7=lambda: os.kill(os.getpid(), number))
    assert run(job, model, said) == code
    assert said == ["stopped; finished chunks are kept; resume with: eval.py"]
    assert not os.path.exists(job.output)
    assert run(job, answerer()) == 0 and read(job) == ANSWERS


def test_a_full_disk_is_one_sentence(job, monkeypatch):
    """Catches a stack trace, and answers that are lost with the disk's space."""
    asked = []
    with monkeypatch.context() as patch:
        full_after(patch, 3)
        with pytest.raises(ValueError, match=r"No space left on device\).*start the same command"):
            run(job, answerer())
    assert run(job, answerer(asked)) == 0
    assert asked == TEXTS[6:] and read(job) == ANSWERS


def test_a_truncated_archive_is_no_whole_file(job):
    """Catches the answers to what could be read, under the name of all."""
    packed = gzip.compress("\n".join(TEXTS).encode())
    with open(f"{job.input}.gz", "wb") as file:
        file.write(packed[:-9])
    with pytest.raises(ValueError, match=r"in\.gz cannot be read"):
        run(AnswerJob(f"{job.input}.gz", job.output, chunk_lines=3), answerer())
    assert not os.path.exists(job.output)


@pytest.mark.parametrize(
    ("fields", "changes", "said"),
    [
        ({}, {"identity": {"checkpoint": "fake (2)"}}, r"checkpoint fake \(1\), not fake \(2\)"),
        ({"options": {"seed": 1}}, {}, "options {}, not {'seed': 1}"),
        ({"chunk_lines": 4}, {}, "chunk_lines 3, not 4"),
    ],
)
def test_answers_of_another_model_are_not_mixed(job, fields, changes, said):
    """Catches a file whose end is of another checkpoint or seed than its beginning."""
    with pytest.raises(Killed):
        run(job, answerer(at_line_7=kill))
    other = AnswerJob(job.input, job.output, **{"chunk_lines": 3} | fields)
    with pytest.raises(ValueError, match=f"{said}: start with the same"):
        run(other, answerer(**changes))


def test_a_model_that_loses_a_line_is_found_out(job):
    """Catches answers that move up by a line."""
    with pytest.raises(ValueError, match="lines 1 to 3: the task gave 2 answers"):
        run(job, answerer(answer=lambda texts: texts[1:]))
