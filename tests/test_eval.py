"""eval.py as a user meets it: files, pipes, scores, pictures, mistakes."""

import json
import random

import pytest

from runs import run, start, write_config

HARD_LINES = [
    b"0 1 2",
    b"",
    b"   \t ",
    b"\xef\xbb\xbf3 4",
    b"1 2\r",
    b"1\x00 2",
    b"1 \xc2\x85 2",
    b"1 \xe2\x80\xa8 2",
    b"\xff\xfe 3",
    "😀 ß </s> <pad> ▁ <0x0A>".encode(),
    b"5 " * 3000,
]


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("eval")
    arguments = ["--config.training.num_train_steps=120", "--config.training.eval_every=120"]
    code, _, err = run(
        "train.py", f"--config={write_config(folder)}", f"--workdir={folder / 'run'}", *arguments
    )
    assert code == 0, err
    return folder / "run"


def test_one_line_out_for_each_line_in(workdir, tmp_path):
    """Line breaks other than \\n, bad bytes, control strings and giants must not lose a line."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"\n".join(HARD_LINES))  # no newline at the end
    code, out, err = run(
        "eval.py", f"--workdir={workdir}", f"--input={source}", f"--output={target}"
    )
    assert code == 0, err
    assert out == b""
    lines = target.read_bytes().split(b"\n")
    assert len(lines) == len(HARD_LINES) + 1
    assert lines[1] == lines[2] == b""
    assert b"\r" not in target.read_bytes()
    assert "line 9" in err
    assert "cut" in err


def test_a_pipe_gives_translations_alone_whatever_the_locale(workdir):
    lines = "".join(f"{n} {n + 1}\n" for n in range(4)).encode()
    environment = {"LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "7", "PYTHONUTF8": "0"}
    code, out, err = run("eval.py", f"--workdir={workdir}", "--input=-", stdin=lines)
    assert code == 0, err
    assert out.count(b"\n") == 4
    again = run("eval.py", f"--workdir={workdir}", "--input=-", stdin=lines, env=environment)
    assert again[:2] == (0, out)


def test_a_closed_pipe_and_a_closed_stdin_end_quietly(workdir):
    process = start("eval.py", f"--workdir={workdir}", "--input=-", stdin=-1)
    process.stdout.close()
    process.stdin.write(b"0 1\n" * 5)
    process.stdin.close()
    err = process.stderr.read().decode()
    assert process.wait(timeout=240) == 0
    assert "Traceback" not in err and "BrokenPipe" not in err
    code, out, err = run("eval.py", f"--workdir={workdir}", "--input=-", stdin=b"")
    assert (code, out) == (0, b"")


def test_scores_an_own_test_set_like_the_config_s(workdir):
    folder = workdir.parent / "corpus"
    own = [f"--input={folder / 'test.en'}", f"--reference={folder / 'test.de'}"]
    outputs = [run("eval.py", f"--workdir={workdir}", *more)[1] for more in ([], own)]
    assert outputs[0] == outputs[1]
    text = outputs[0].decode()
    assert "BLEU" in text and "version:" in text and "en-de, 20 sentences" in text
    scores = json.loads((workdir / "results" / "test.json").read_text())
    assert scores["bleu"]["interval"] > 0


def test_draws_the_attention_of_a_sentence(workdir, tmp_path):
    picture = tmp_path / "map.png"
    code, _, err = run("eval.py", f"--workdir={workdir}", f"--attention={picture}")
    assert code == 0, err
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input=nowhere.txt"], "nowhere.txt is not there"),
        (["--reference=x"], "--reference needs"),
        (["--output=x"], "--output needs"),
        (["--top_k=3"], "--top_k goes with --sample"),
        (["--checkpoint=newest"], "'newest'"),
        (["--split=nowhere"], "nowhere.en"),
        (["--nbset=3"], "did you mean --nbest?"),
        (["--workdir=configs"], "no config.json"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(workdir, arguments, said):
    code, out, err = run("eval.py", f"--workdir={workdir}", *arguments)
    assert (code, out) == (2, b""), err
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_unequal_files_are_refused_before_anything_is_scored(workdir, tmp_path):
    (tmp_path / "a").write_text("0\n1\n")
    (tmp_path / "b").write_text("a\n")
    own = [f"--input={tmp_path / 'a'}", f"--reference={tmp_path / 'b'}"]
    code, _, err = run("eval.py", f"--workdir={workdir}", *own)
    assert code == 2
    assert "2 lines" in err and "1;" in err


def test_a_tokenizer_of_another_vocabulary_is_refused(workdir, tmp_path):
    """Ids beyond the table would be clipped in silence and translate to nonsense."""
    import shutil

    other = tmp_path / "other"
    shutil.copytree(workdir, other)
    vocabulary = (other / "tokenizer.vocab").read_text().split("\n")
    (other / "tokenizer.vocab").write_text("\n".join(vocabulary[:-2]))
    code, _, err = run("eval.py", f"--workdir={other}", "--input=-", stdin=b"0 1\n")
    assert code == 2
    assert "does not fit" in err
    (other / "tokenizer.vocab").write_bytes(b"")
    assert run("eval.py", f"--workdir={other}", "--input=-")[0] == 2


def test_fuzzed_lines_never_crash(workdir):
    rng = random.Random(0)
    lines = [bytes(rng.randrange(256) for _ in range(rng.randrange(30))) for _ in range(1000)]
    text = b"\n".join(line.replace(b"\n", b"") for line in lines) + b"\n"
    code, out, err = run(
        "eval.py", f"--workdir={workdir}", "--input=-", "--beam_size=1", stdin=text
    )
    assert code == 0, err
    assert out.count(b"\n") == 1000
