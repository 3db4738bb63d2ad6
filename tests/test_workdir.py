"""The folder of a run: one owner, one configuration, no half-written file."""

import fcntl
import json
import os
import runpy
import socket
import sys

import pytest

from transformer.config import Config
from transformer.files import storage
from transformer.files.storage import open_atomically, write_atomically
from transformer.workdir import WorkDir, split_checkpoint


def make_run(path):
    """Begins a run in a folder, which stays locked."""
    workdir = WorkDir(path)
    workdir.open_for_training(Config())
    workdir.save_config(Config())
    return workdir


def test_a_second_trainer_is_told_who_is_there(tmp_path):
    """Catches two processes that write to one folder, a refusal without the first one, and a lock
    file whose mere existence keeps out the resumption of a run that has ended or was killed."""
    owner = make_run(tmp_path)
    with pytest.raises(ValueError, match=f"process {os.getpid()} on {socket.gethostname()}"):
        WorkDir(tmp_path).open_for_training(Config())
    owner.close()
    killed = make_run(tmp_path)
    fcntl.flock(killed._lock, fcntl.LOCK_UN)  # as the system does for a process that dies
    WorkDir(tmp_path).open_for_training(Config())


def test_only_some_settings_may_change_on_resumption(tmp_path):
    """Catches a run that cannot be prolonged, and one that continues with another optimizer."""
    make_run(tmp_path).close()
    config = Config()
    config.training.num_train_steps, config.decoding.beam_size = 7, 9
    other = WorkDir(tmp_path)
    other.open_for_training(config)
    other.close()
    config.optimizer.beta2 = 0.999
    with pytest.raises(ValueError, match=r"optimizer\.beta2 is 0\.98 there, 0\.999 here"):
        WorkDir(tmp_path).open_for_training(config)


def test_a_run_knows_its_text_from_any_folder(tmp_path, monkeypatch):
    """Catches a text that is only found from where training was started, or not after a move, and a
    path of a run that is put together as text, or taken apart at blanks."""
    for folder in ("data/text", "moved/text", "other"):
        (tmp_path / folder).mkdir(parents=True)
    config = Config()
    config.data.corpus = "data/text@2#<bt>, embedded#<x>,tfds:a/b,gs://c/d"
    monkeypatch.chdir(tmp_path)
    workdir, run = WorkDir("my rün/deep"), tmp_path / "my rün" / "deep"  # relative, too
    workdir.open_for_training(config)
    workdir.save_config(config)
    workdir.close()
    monkeypatch.chdir(tmp_path / "moved")
    corpus = WorkDir(run).load_config().data.corpus
    assert corpus == f"{tmp_path}/data/text@2#<bt>,embedded#<x>,tfds:a/b,gs://c/d"
    config.data.corpus = corpus.replace(f"{tmp_path}/data/text", "./text/")
    WorkDir(run).is_finished(config)
    config.data.corpus = corpus.replace("text", "other")
    with pytest.raises(ValueError, match=r"is .*Leave out --config\.data\.corpus, or the --co"):
        WorkDir(run).is_finished(config)


def test_a_corpus_is_the_same_where_it_has_its_name():
    """Catches a corpus of another year, or of another folder whose name ends in "/", taken for the
    one that a run began with, and a folder that was moved taken for another."""
    (corpus,) = (known for known in Config.settings() if known.name == "data.corpus")
    pairs = {
        ("/a/wmt@2#<x>,tfds:b/c", "/d/wmt@2#<x>,tfds:b/c"): True,
        ("gs://a/wmt/", "/d/wmt"): True,
        ("gs://a/x/", "gs://b/y/"): False,
        ("gs://a/x/@2", "gs://b/x@3"): False,
        ("tfds:wmt14_translate/de-en", "tfds:wmt16_translate/de-en"): False,
        ("tfds:a/wmt", "/a/wmt"): False,
        ("/a/wmt", "/a/wmt,/a/wmt"): False,
    }
    assert {pair: corpus.is_same(*pair) for pair in pairs} == pairs
    assert {pair: corpus.is_same(*pair[::-1]) for pair in pairs} == pairs


def test_a_start_without_a_run_leaves_no_folder(tmp_path):
    """Catches empty folders of failed starts, and a folder of the user's that is removed."""
    for path in (tmp_path / "runs" / "mine", tmp_path):
        workdir = WorkDir(path)
        workdir.open_for_training(Config())
        workdir.append_log("error")
        workdir.close()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert (tmp_path / "log.txt").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("file", ""), ("config.json", '{"model_type": "marian"}'), ("decoder.yml", "")],
)
def test_paths_that_cannot_be_used_are_named(tmp_path, name, content):
    """Catches a traceback for a file instead of a folder, or for a folder without a run, and "not a
    configuration of this version" for a model of another system that can be imported."""
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match="cannot be written"):
        WorkDir(tmp_path / name).open_for_training(Config())
    said = f"is not a work directory: .* transformer-import {tmp_path} RUN makes one"
    with pytest.raises(ValueError, match=said):
        WorkDir(tmp_path).load_config()


def test_lines_that_are_cut_short_or_damaged_are_left_out(tmp_path):
    """Catches a run that cannot be resumed as its last report was cut short, or for one bit."""
    workdir = make_run(tmp_path)
    for step in (1, 2, 3):
        workdir.append_metrics({"step": step})
    with open(tmp_path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 4, "l\xefss": 1}\n{"step": 4, "lo')
        file.write(b'\n{"stap": 4}\n{"step": "4"}\n[4]\n4\n{"step": 4, "lo')
    assert [record["step"] for record in workdir.read_metrics()] == [1, 2, 3]
    workdir.forget_metrics_after(2)
    assert [json.loads(x)["step"] for x in (tmp_path / "metrics.jsonl").open()] == [1, 2]


def test_importing_sets_no_environment(monkeypatch):
    """Catches variables for gs:// that reach every program that imports the library, fsspec's
    traceback where a package is missing, and a local folder named `gs:`."""
    for name in storage.CLOUD_ENVIRONMENT:
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    before = dict(os.environ)
    runpy.run_path(storage.__file__)
    assert os.environ == before
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(ValueError, match=r"package gcsfs: pip install -e '\.\[gcs\]'"):
        WorkDir("gs://first-use/run")
    assert os.environ.items() >= storage.CLOUD_ENVIRONMENT.items()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """Catches a file that is emptied before its new content is known, or written in place, and a
    link that somebody laid under a known name, behind which another file is overwritten."""
    path = tmp_path / "file"
    (tmp_path / "precious").write_text("old")
    (tmp_path / "file.tmp").symlink_to(tmp_path / "precious")
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    with pytest.raises(KeyError), open_atomically(path) as file:
        file.write(b"half")
        file.flush()
        assert path.read_text() == "old"  # what a reader sees, or a kill leaves, meanwhile
        raise KeyError
    left = {each.name: (each.read_text(), each.is_symlink()) for each in tmp_path.iterdir()}
    assert left == dict.fromkeys(("file", "precious"), ("old", False))


def test_a_run_of_a_newer_version_says_so(tmp_path):
    """Catches a run of tomorrow that is refused as if it were damaged."""
    for model, said in (
        ({"attention": "of_the_future"}, "model.attention must be"),
        ({"flux_capacitor": 1}, "newer one, .* there is no model.flux_capacitor"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({"model": model}))
        with pytest.raises(ValueError, match=rf"config\.json: .*{said}"):
            WorkDir(tmp_path).load_config()


def test_a_run_that_was_opened_is_not_read_again(tmp_path):
    """Catches a config.json that each part of a command reads anew, and one that is out of date."""
    run, other = WorkDir(tmp_path), Config(task="images")
    run.save_config(Config())
    assert run.load_config() == Config()
    known = WorkDir(run)
    WorkDir(tmp_path).save_config(other)
    assert known.load_config() == Config() and run.load_config() == other
    known.save_config(Config())
    assert known.load_config() == run.load_config() == Config()


def test_a_folder_that_the_locale_cannot_name(tmp_path, monkeypatch):
    """Catches checkpoints that go to, or are looked for in, a folder of another name."""
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "ascii")
    WorkDir(tmp_path / "runs")
    with pytest.raises(ValueError, match=r"file names are ascii in .* set PYTHONUTF8=1"):
        WorkDir(tmp_path / "läuft")


def test_only_what_follows_the_last_at_sign_of_a_run_names_a_checkpoint(tmp_path):
    """Catches /home/me@lab/runs/a taken for a checkpoint lab/runs/a of the run /home/me."""
    run = tmp_path / "me@lab" / "runs" / "a"
    assert split_checkpoint(run) == (str(run), "")
    assert split_checkpoint(f"{run}@average:2") == (str(run), "average:2")
    assert split_checkpoint("runs/a@b@last") == ("runs/a@b", "last")
    (tmp_path / "a@200").mkdir()
    assert split_checkpoint(tmp_path / "a@200") == (str(tmp_path / "a@200"), "")
