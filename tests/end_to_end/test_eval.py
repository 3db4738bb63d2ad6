"""eval.py as a user meets it: files, pipes, scores, pictures, mistakes."""

import json
import random
import shutil
import signal
import weakref

import pytest

from tests.helpers.commands import call
from tests.helpers.scripts import HANGS, finish, run, signal_at_call, start
from tests.helpers.two_hosts import free_port
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.inference.translator import Translator

HARD_LINES = [
    *(b"0 1 2", b"", b"   \t ", b"\xef\xbb\xbf3 4", b"1 2\r", b"1\x00 2", b"1 \xc2\x85 2"),
    *(b"1 \xe2\x80\xa8 2", b"\xff\xfe 3"),
    "😀 ß </s> <pad> ▁ <0x0A>".encode(),
    b"5 " * 3000,
    *(random.Random(n).randbytes(20).replace(b"\n", b"") for n in range(60)),
]


@pytest.fixture(scope="module")
def workdir(tiny, tmp_path_factory):
    """A copy of the finished run, whose scores are written anew."""
    folder = shutil.copytree(tiny, tmp_path_factory.mktemp("eval") / "tiny")
    shutil.rmtree(folder / "run" / "results")
    return folder / "run"


def test_one_line_out_for_each_line_in(workdir, tmp_path):
    """Catches a line lost to other line breaks than \\n, bad bytes, control strings or giants."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\n".join(HARD_LINES))  # no newline at the end
    files = f"--input={source}", f"--output={target}"
    code, out, err = call("eval.py", f"--workdir={workdir}", *files)
    assert (code, out) == (0, b""), err
    lines = target.read_bytes().split(b"\n")
    assert len(lines) == len(HARD_LINES) + 1
    assert lines[1] == lines[2] == b""
    assert b"\r" not in target.read_bytes()
    assert "line 9" in err and "cut" in err


@pytest.mark.long
def test_a_pipe_gives_translations_alone_whatever_the_locale(workdir):
    """Catches words besides translations on standard output, and text decoded by the locale."""
    lines = "".join(f"{n} {n + 1}\n" for n in range(4)).encode()
    environment = {"LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0"}
    code, out, err = call("eval.py", f"--workdir={workdir}", "--input=-", stdin=lines)
    assert code == 0, err
    assert out.count(b"\n") == 4
    again = run("eval.py", f"--workdir={workdir}", "--input=-", stdin=lines, env=environment)
    assert again[:2] == (0, out)


@pytest.mark.long
def test_draws_the_attention_of_a_sentence(workdir, tmp_path):
    """Catches a picture that is not written, or not in the format of its suffix."""
    picture = tmp_path / "map.png"
    code, _, err = call("eval.py", f"--workdir={workdir}", f"--attention={picture}", pictures=True)
    assert code == 0 and picture.read_bytes().startswith(b"\x89PNG"), err


@pytest.mark.long
def test_a_closed_pipe_and_a_closed_stdin_end_quietly(workdir):
    """Catches a stack trace where the reader has gone, or where there is nothing to read."""
    process = start("eval.py", f"--workdir={workdir}", "--input=-", stdin=-1)
    process.stdout.close()
    process.stdin.write(b"0 1\n" * 5)
    process.stdin.close()
    err = process.stderr.read().decode()
    assert process.wait(HANGS) == 0
    assert "Traceback" not in err and "BrokenPipe" not in err
    code, out, err = call("eval.py", f"--workdir={workdir}", "--input=-")
    assert (code, out) == (0, b""), err


def test_scores_an_own_test_set_like_the_config_s(workdir):
    """Catches --input with --reference scored otherwise than the same split by its name."""
    folder = workdir.parent / "corpus"
    own = [f"--input={folder / 'test.en'}", f"--reference={folder / 'test.de'}"]
    words, results = ("eval.py", f"--workdir={workdir}"), workdir / "results"
    outputs = [call(*words, *more, pictures=True)[1] for more in ([], own)]
    assert outputs[0] == outputs[1]
    assert {path.name for path in results.glob("test*")} > {"test"}, "beside its own"
    text = outputs[0].decode()
    for said in ("version:", "en-de, 20 sentences: too few for an interval", "eos:yes"):
        assert said in text
    assert "BLEU, lower-cased" in text and "perplexity" in text
    scores = json.loads((results / "test" / "report.json").read_text())
    assert scores["bleu"]["interval"] is scores["perplexity"]["interval"] is None
    assert (results / "test" / "report.html").stat().st_size > 10_000


@pytest.mark.long
def test_every_checkpoint_is_scored(workdir):
    """Catches a curve that stops at a damaged checkpoint, and rows that are not kept."""
    copy = shutil.copytree(workdir, workdir.parent / "copy")
    *kept, damaged, _ = Checkpoints(copy / "checkpoints", keep=1, read_only=True).steps()
    for file in (copy / "checkpoints" / str(damaged)).rglob("d/*"):
        file.write_bytes(b"")
    arguments = [f"--workdir={copy}", "--checkpoints=all", "--beam_size=1"]
    code, out, err = call("eval.py", *arguments, pictures=True)
    assert code == 0, err
    lines = out.decode().splitlines()
    steps = [*kept, 300]
    assert [line.split()[0] for line in lines[: len(steps) + 1]] == ["checkpoint", *map(str, steps)]
    assert f"warning: checkpoint {damaged} is left out" in err
    results = copy / "results" / "test_checkpoint_all_beam_size_1"
    record = json.loads((results / "report.json").read_text())
    assert [row["step"] for row in record["checkpoints"]] == steps
    assert record["search"]["beam_size"] == 1 and record["checkpoint"] == "300"
    assert "<h2>Checkpoints</h2>" in (results / "report.html").read_text()


@pytest.mark.long
def test_runs_are_compared_beside_the_report_of_the_run(workdir, monkeypatch):
    """Catches a comparison that replaces the run's own report, and all models in memory at once."""
    restored, restore = [], Translator.from_checkpoint

    def restore_alone(*args, **options):
        assert not any(translator() for translator in restored)
        translator = restore(*args, **options)
        restored.append(weakref.ref(translator))
        return translator

    monkeypatch.setattr(Translator, "from_checkpoint", restore_alone)
    early, *_ = Checkpoints(workdir / "checkpoints", keep=1, read_only=True).steps()
    other = shutil.copytree(workdir, workdir.parent / "other")
    config = json.loads((other / "config.json").read_text())
    config["training"]["seed"], config["decoding"]["beam_size"] = 7, 3
    (other / "config.json").write_text(json.dumps(config))
    before = set((workdir / "results").rglob("*"))
    words = "eval.py", f"--workdir={workdir}", "--beam_size=1"
    code, out, err = call(*words, f"--compare={other}@1")
    assert (code, out) == (2, b"") and "holds the steps" in err
    code, out, err = call(*words, f"--compare={other}@last,{workdir}@{early}")
    assert code == 0, err
    text = out.decode()
    new = {path.name: path for path in {*(workdir / "results").rglob("*")} - before}
    assert len(new) == 3 and "report.html" in new
    record = json.loads(new["report.json"].read_text())
    assert [run["step"] for run in record["runs"]] == [300, 300, early]
    assert record["settings"] == {"--config.training.seed": [2, 7, 2]}, "the search is the flag's"
    assert "--config.training.seed" in text and "p, Holm" in text
    scores = [run["bleu"]["value"] for run in record["runs"]]
    assert scores[0] == scores[1] > scores[2]
    differences = {d["system"]: d for d in record["differences"] if d["metric"] == "BLEU"}
    assert differences[1]["p_holm"] == 1 and differences[2]["difference"] == scores[2] - scores[0]


@pytest.mark.long
def test_two_hosts_share_a_corpus_and_resume_after_a_kill(workdir, tmp_path):
    """Catches chunks that each host does, a join before the last of them, hosts that hang, and
    bytes that depend on a kill or on the hosts."""
    rng, source = random.Random(0), tmp_path / "a.en"
    lines = [" ".join(str(rng.randrange(6)) for _ in range(rng.randrange(9))) for _ in range(2000)]
    source.write_text("".join(f"{line}\n" for line in lines))
    words = ["eval.py", f"--workdir={workdir}", f"--input={source}"]
    words += ["--chunk_lines=100", "--batch_size=64"]
    code, _, err = call(*words, f"--output={tmp_path / 'a.de'}")
    assert code == 0, err
    words += [f"--output={tmp_path / 'out.de'}"]
    patch = signal_at_call(signal.SIGKILL, "transformer.inference.file_job.FileJob.run_chunk", 5)
    assert finish([start(*words, patch=patch)])[0][0] == -9
    words += [f"--coordinator=localhost:{free_port()}", "--num_processes=2"]
    said = finish([start(*words, f"--process_id={index}") for index in range(2)])
    assert [code for code, _ in said] == [0, 0], said
    assert "2,000 lines" in said[0][1] and "2,000 lines" not in said[1][1]
    assert (tmp_path / "out.de").read_bytes() == (tmp_path / "a.de").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.en", "a.de", "out.de"}
