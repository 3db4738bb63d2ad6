"""train.py as a user meets it: killed, resumed, finished, misused."""

import json
import re
import shutil
import signal

import jax
import numpy as np
import pytest

from tests.helpers.commands import call
from tests.helpers.scripts import QUICKLY, finish, losses, signal_at_call, start, write_corpus
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.export import export
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir


def test_leaves_all_that_it_promises(finished, tiny):
    """Catches a file of the work directory that is missing, and a next command of another run."""
    said, log = (path.read_text() for path in (tiny / "said.txt", finished / "log.txt"))
    for name in ("config.json", "tokenizer.vocab", "metrics.jsonl", "samples.txt", "curves.png"):
        assert (finished / name).stat().st_size > 0
    (start,) = json.loads((finished / "environment.json").read_text())
    assert "train.py" in " ".join(start["command"])
    for line in ("step      1/300", "step    150  validation: ", "test set, checkpoint "):
        for text in (log, said):
            assert re.search(rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d {line}", text, re.M), line
    assert list(finished.glob("events.out.tfevents.*"))
    assert f"eval.py --workdir={finished}" in said


def test_learns_to_reverse(finished):
    """Catches a fault anywhere between text and text: masks, shifts, search, joining of tokens."""
    bleu = json.loads((finished / "results" / "test" / "report.json").read_text())["bleu"]
    assert bleu["num_sentences"] == 20 and "version:" in bleu["signature"]
    assert bleu["value"] > 80
    assert min(losses(finished).values()) < 0.9


KILL_AT_THE_END_OF_A_SAVE = """
import os, signal, sys

def kill(event, arguments):
    if event == "os.rename" and os.path.basename(os.fspath(arguments[1])) == "20":
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
"""
TRAINER = "transformer.training.trainer.Trainer"


@pytest.mark.long
def test_killed_and_resumed_equals_undisturbed(finished, config, tmp_path):
    """Catches losses or weights that differ in a bit from an undisturbed run's; dropout is on.

    It is killed before a checkpoint gets its name and while it evaluates, and stopped twice.
    """
    workdir, ends = tmp_path / "killed", []
    for patch in (
        KILL_AT_THE_END_OF_A_SAVE,
        signal_at_call(signal.SIGKILL, f"{TRAINER}._evaluate", 1),  # at step 150
        signal_at_call(signal.SIGTERM, f"{TRAINER}._report", 10),
        signal_at_call(signal.SIGTERM, f"{TRAINER}._report", 100),  # step 250 or after
    ):
        process = start("train.py", f"--config={config}", f"--workdir={workdir}", patch=patch)
        ends += finish([process])
    assert [code for code, _ in ends] == [-9, -9, 75, 75], ends
    said = ends[2][1]
    assert "resuming at step" in said
    assert "and saved; the same command goes on" in said
    resumed, undisturbed = losses(workdir), losses(finished)
    assert resumed == {step: undisturbed[step] for step in range(1, max(resumed) + 1)}
    ours, theirs = (
        Checkpoints(w / "checkpoints", keep=1, read_only=True) for w in (workdir, finished)
    )
    assert ours.about(240)["fingerprints"] == theirs.about(240)["fingerprints"]


def test_a_finished_run_says_so_and_writes_nothing(finished, config):
    """Catches a finished run that is trained, scored or dated anew."""
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    code, _, err = call("train.py", f"--config={config}", f"--workdir={finished}")
    assert code == 0 and "already finished" in err
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


@pytest.mark.long
def test_fine_tuning_begins_where_the_other_run_ended_and_resumes_without_it(finished, tmp_path):
    """Catches a vocabulary of its own, and bfloat16 parameters that stay so and learn little.

    What was left out and what is in the test set, too, is said at each start, once.
    """
    corpus, small = write_corpus(tmp_path / "corpus"), tmp_path / "small"
    files = corpus / "train.en", corpus / "train.de"
    lines = zip(*(file.read_text().splitlines() for file in files), strict=True)
    domain = [pair for pair in lines if "5" in pair[0]] + [("5", "")]  # the last is left out, too
    for file, side in zip(files, zip(*domain, strict=True), strict=True):
        file.write_text("".join(f"{line}\n" for line in side))
    export(finished, small)
    workdir = tmp_path / "tuned ü"
    flags = [f"--config=fine_tune:{small}", f"--workdir={workdir}", *QUICKLY]
    flags += [f"--config.data.corpus={corpus}", "--config.data.drop_duplicates=pair"]
    for steps, said in ((2, "31 of its 31 arrays"), (4, "resuming at step 2")):
        code, _, err = call("train.py", *flags, f"--config.training.num_train_steps={steps}")
        assert code == 0, err
        assert said in err
        assert "left out: " in err and "17 of a repeated pair" in err
        assert err.count("1 of 20 pairs of validation have the source or the target of a pair") == 1
    assert "warm start" not in err
    left_out = (workdir / "left_out.tsv").read_text().splitlines()
    assert len(left_out) == 2 and "\tcorpus/train.en\t" in left_out[1], left_out
    params = Translator.from_checkpoint(workdir).params
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    ours, theirs = (WorkDir(path).read_metrics() for path in (workdir, finished))
    best = min(r["validation_loss"] for r in theirs if "validation_loss" in r)
    assert ours[0]["step"] == 0
    assert ours[0]["validation_loss"] == pytest.approx(best, abs=0.02)
    assert (workdir / "tokenizer.vocab").read_bytes() == (finished / "tokenizer.vocab").read_bytes()


@pytest.mark.long
def test_adapters_are_trained_scored_and_opened_with_their_base(finished, tmp_path):
    """Catches adapters that nothing but training can open, and a base that is saved with them."""
    workdir = tmp_path / "adapters"
    flags = [f"--config=lora:{finished}", "--config.training.num_train_steps=2", *QUICKLY]
    code, _, err = call("train.py", *flags, f"--workdir={workdir}")
    assert code == 0, err
    assert "adapters    of rank 8: 9,216 parameters are trained" in err
    adapted, base = Translator.from_checkpoint(workdir, "0"), Translator.from_checkpoint(finished)
    jax.tree.map(np.testing.assert_array_equal, adapted.params, base.params)
    saved = Checkpoints(workdir / "checkpoints", keep=1, read_only=True).load(2)
    assert set(saved.params) == {"encoder", "decoder"}  # no embeddings


@pytest.mark.long
def test_stray_files_change_nothing(finished, config, tmp_path):
    """Catches a stray folder named 999, which Orbax takes for the newest checkpoint."""
    workdir = shutil.copytree(finished, tmp_path / "strays")
    (workdir / "checkpoints" / "999").mkdir()
    (workdir / "checkpoints" / "notes.txt").write_text("mine")
    flags = "--config.training.num_train_steps=301", *QUICKLY
    code, _, err = call("train.py", f"--config={config}", f"--workdir={workdir}", *flags)
    assert code == 0 and "resuming at step 300" in err, err


def test_dry_run(config, tmp_path):
    """Catches a dry run that leaves a work directory behind, or tells no costs."""
    code, _, err = call("train.py", f"--config={config}", f"--workdir={tmp_path}/x", "--dry_run")
    assert code == 0, err
    assert "MiB of work space" in err and "estimate" not in err
    assert "shared_embedding/table" in err
    assert not (tmp_path / "x").exists()
