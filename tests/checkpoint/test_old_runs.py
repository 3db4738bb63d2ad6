"""Work directories of every version: they answer, go on and are scored as they did then."""

import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.helpers.commands import call
from tests.helpers.rings import others_long
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.restore import restore
from transformer.inference.encoders import Classifier
from transformer.inference.translator import Translator

ARCHIVES = sorted((Path(__file__).parents[1] / "golden" / "runs").glob("*/*.tar.xz"))
MOST_BYTES = 100_000


def name_of(archive):
    return f"{archive.parent.name}/{archive.name.removesuffix('.tar.xz')}"


def unpack(archive, folder):
    """Unpacks a run, as `folder`/run, and its corpus; returns what its version made of it."""
    assert archive.stat().st_size < MOST_BYTES
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return json.loads((folder / "expected.json").read_text())


def answer(workdir, checkpoint, lines):
    """The answers of a checkpoint, as text."""
    if (workdir / "classes.json").exists():
        found = Classifier.from_checkpoint(workdir, checkpoint).classify(lines)
        return [classification.label for classification in found]
    found = Translator.from_checkpoint(workdir, checkpoint).translate(lines)
    return [translation.text for translation in found]


@pytest.mark.parametrize("archive", others_long(ARCHIVES, ARCHIVES[-1]), ids=name_of)
def test_an_old_run_answers_as_it_did(archive, tmp_path):
    """Catches parameters, vocabularies, means, scores or a search that mean something else now."""
    expected = unpack(archive, tmp_path)
    for checkpoint, answers in expected["answers"].items():
        assert answer(tmp_path / "run", checkpoint, expected["lines"]) == answers, checkpoint
        assert len(set(answers)) > 1, "else the answers would not depend on the input"
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints", keep=9, read_only=True)
    best = checkpoints.best_step()
    assert best in checkpoints.steps()
    checkpoints.close()
    assert restore(tmp_path / "run", "best").step == best


@pytest.mark.long
@pytest.mark.parametrize("archive", ARCHIVES, ids=name_of)
def test_an_old_run_goes_on_as_it_would_have(archive, tmp_path):
    """Catches a state, a schedule, a loss or a score that is not what it was."""
    expected, run = unpack(archive, tmp_path), tmp_path / "run"
    arguments = [f"--config.training.num_train_steps={expected['steps']}"]
    if os.path.isabs(json.loads((run / "config.json").read_text())["data"]["corpus"]):
        arguments.append(f"--config.data.corpus={tmp_path / expected['corpus']}")
    code, _, err = call("train.py", f"--workdir={run}", *arguments)
    assert code == 0, err
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = {str(record["step"]): record["loss"] for record in records if "loss" in record}
    assert {step: losses[step] for step in expected["losses"]} == pytest.approx(
        expected["losses"], rel=1e-3, abs=1e-6
    )
    scores = {name: records[-1][name] for name in expected["test"]}
    assert scores == pytest.approx(expected["test"], rel=1e-3)
