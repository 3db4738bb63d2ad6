"""Training from Python: what `transformer.train` returns, refuses, resumes and leaves alone."""

import json
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import transformer
from tests.helpers.tiny_runs import SPLITS, write_sentences
from transformer.config import Config, ModelConfig, TrainingConfig
from transformer.exit_codes import DONE, RESUMABLE


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """A classifier that is compiled in seconds, for four steps."""
    values = dict(setting.split("=") for setting in SPLITS)
    values["data.corpus"] = str(write_sentences(tmp_path_factory.mktemp("text") / "corpus"))
    config = Config(task="classification").with_values(values)
    config.model = ModelConfig(d_model=8, d_ff=8, num_heads=1, num_layers=1)
    config.tokenizer.kind, config.data.row_length = "characters", 16
    config.training = TrainingConfig(num_train_steps=4, batch_tokens=64, log_every=1)
    return config


def test_a_run_stops_resumes_and_says_what_it_reached(config, tmp_path, capfd):
    """Catches a library that keeps the signals, prints when it is told not to, or loses a step, and
    a log that does not say with which commands it was written.
    """
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    reports = []

    def stop_at_two(step, metrics):
        reports.append((step, metrics))
        if step == 2:
            signal.raise_signal(signal.SIGTERM)

    stopped = transformer.train(config, tmp_path / "run", on_report=stop_at_two)
    assert (stopped.exit_code, stopped.step, stopped.scores) == (RESUMABLE, 2, {})
    assert not stopped.is_finished
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert "stopped at step 2 and saved; the same command goes on" in capfd.readouterr().err

    options = {"on_report": lambda *report: reports.append(report), "verbose": False}
    with ThreadPoolExecutor(1) as pool:  # a thread may not touch signals
        finished = pool.submit(transformer.train, config, tmp_path / "run", **options).result()
    assert capfd.readouterr() == ("", "")
    assert (finished.exit_code, finished.step, finished.is_finished) == (DONE, 4, True)
    assert finished.scores.keys() == {"accuracy"}
    assert [step for step, metrics in reports if "loss" in metrics] == [1, 2, 3, 4]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(reports) == len(lines)
    log, command = (tmp_path / "run" / "log.txt").read_text(), shlex.join(sys.orig_argv)
    assert log.count(command) == 2 and command in log.splitlines()[0]
    assert json.loads(lines[-1])["test_accuracy"] == finished.scores["accuracy"]
    assert transformer.train(config, tmp_path / "run", verbose=False) == finished


def test_mistakes_are_value_errors(config, tmp_path):
    """Catches a library call that ends the process, or leaves a folder locked."""
    with pytest.raises(ValueError, match=r"takes a transformer\.Config, not a dict\.$"):
        transformer.train({"model.d_model": 8}, tmp_path / "run")
    lost = config.with_values({"data.corpus": str(tmp_path / "nowhere")})
    for mistaken, said, profile in (
        (config.with_values({"model.num_heads": 3}), r"model\.num_heads", ""),
        (lost, "--profile=9 must be STEP:COUNT", "9"),
        (lost, "nowhere", ""),
        (lost, "nowhere", ""),  # the folder is free again
    ):
        with pytest.raises(ValueError, match=said):
            transformer.train(mistaken, tmp_path / "run", verbose=False, profile=profile)
