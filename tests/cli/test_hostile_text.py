"""Sentences, pieces, names of classes and folders that strangers chose never command a terminal."""

import json
import logging

import pytest

from tests.helpers.commands import call
from tests.helpers.random_runs import write_run
from tests.helpers.terminal import without_commands_of_row
from tests.helpers.tiny_runs import CONFIG, SETTINGS, SPLITS
from tests.test_console import HOSTILE, RAW
from transformer.cli import process
from transformer.data.tokenizers.lists import PiecesTokenizer

WORD = HOSTILE.translate({ord(" "): "", ord("\r"): "", 0xDC9B: "\ufffd"})  # as one piece
NAME = "run\x1b[31m\r\u202e"


def raw(output):
    """The characters of a command's output that a terminal obeys, but for those of the live row."""
    text = output if isinstance(output, str) else output.decode()
    return RAW & set(without_commands_of_row(text))


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A run that translates everything into hostile pieces."""
    folder = tmp_path_factory.mktemp("runs") / NAME
    return write_run(folder, tokenizer=PiecesTokenizer([f"{WORD}{i}" for i in range(9)], "@@"))


def test_translations_are_exact_in_a_pipe_and_escaped_on_a_terminal(translator):
    """Catches a translation that commands a terminal, or that is changed in a file."""
    arguments = f"--workdir={translator}", "--input=-"
    text = f"{HOSTILE} {WORD}1\n".encode(errors="surrogatepass")
    code, out, err = call("eval.py", *arguments, stdin=text, terminal=True)
    assert code == 0, err
    assert not raw(out) and not raw(err) and b"\\x1b" in out
    code, exact, err = call("eval.py", *arguments, stdin=text)
    assert code == 0 and not raw(err)
    assert raw(exact) and out != exact


def test_classes_and_files_are_escaped(tmp_path):
    """Catches names of classes and files in scores, answers and errors, and --corpus that is not
    read, so that a run whose text is somewhere else can no longer be scored."""
    names = [f"{i}{WORD}" for i in range(3)]
    run = write_run(tmp_path / NAME, "classification", classes=names)
    arguments = f"--workdir={run}", f"--input={tmp_path / NAME}.txt"
    code, out, err = call("eval.py", *arguments, terminal=True)
    assert code == 2 and "\\x1b[31m\\r\\u202e.txt" in err and not raw(err)
    (tmp_path / f"{NAME}.txt").write_text(f"w1 {WORD}\n")
    code, out, err = call("eval.py", *arguments, terminal=True)
    assert code == 0 and not raw(out) and not raw(err), err
    assert call("eval.py", *arguments)[1].decode().strip("\n") in names
    (corpus := tmp_path / NAME / "moved").mkdir()
    (corpus / "test.tsv").write_text("".join(f"{name}\tw1 w2\n" for name in [*names, names[0]]))
    code, out, err = call("eval.py", f"--workdir={run}", f"--corpus={corpus}", terminal=True)
    assert code == 0 and not raw(out) and not raw(err), err
    assert b"\\x1b" in out and b"(3 classes, 4 examples)" in out


def test_values_of_settings_are_escaped(tmp_path):
    """Catches a config.json of somebody else that speaks to the terminal."""
    run = write_run(tmp_path / "run")
    values = json.loads((run / "config.json").read_text())
    values["data"]["corpus"] = f"{tmp_path}/{NAME}"
    (run / "config.json").write_text(json.dumps(values))
    for words in ("eval.py --split=test", "train.py --print_config", "train.py --help=data"):
        _, out, err = call(*words.split(), f"--workdir={run}", terminal=True)
        assert not raw(out) and not raw(err) and "\\x1b" in out.decode() + err
    values["model"] |= {"attention": HOSTILE, HOSTILE: 1}
    (run / "config.json").write_text(json.dumps(values))
    code, out, err = call("eval.py", f"--workdir={run}", terminal=True)
    assert code == 2 and not raw(err)


def test_tracebacks_and_logs_are_escaped(capsys):
    """Catches a defect, or an error that a library logs, that says what it was given as it is."""
    process.show_defect(RuntimeError, RuntimeError(HOSTILE), None)
    process.hear_errors_once()
    logging.getLogger().handlers[-1].handle(
        logging.LogRecord("x", logging.ERROR, "x.py", 1, "%s", (HOSTILE,), None)
    )
    shown = capsys.readouterr().err
    assert not raw(shown) and shown.count("\\x1b]0;title") == 2


@pytest.mark.long
def test_a_training_shows_nothing_as_it_is(tmp_path):
    """Catches a start-up summary, a sample, a report or a log with the corpus' own commands."""
    corpus, run = tmp_path / NAME, tmp_path / f"other {NAME}"
    corpus.mkdir()
    rows = [f"{i % 2}{WORD}\tw{i} {WORD}\n" for i in range(40)]
    (corpus / "train.tsv").write_text("".join(rows))
    (tmp_path / "config.py").write_text(CONFIG.format(task="classification"))
    settings = [f"{name}={value}" for name, value in SETTINGS.items()] + SPLITS
    settings += [f"data.corpus={corpus}", "data.row_length=64", "tokenizer.kind=characters"]
    settings += ["training.num_train_steps=2", "training.eval_every=1"]
    flags = [f"--config={tmp_path / 'config.py'}", *(f"--config.{word}" for word in settings)]
    code, out, err = call("train.py", f"--workdir={run}", *flags, terminal=True)
    assert code == 0, err
    assert err.count("\\x1b]0;title") > 5  # samples, answers and what to do next
    files = [(run / name).read_text() for name in ("log.txt", "samples.txt")]
    assert not raw(out) and not raw(err + "".join(files))
