"""The one command for an accelerator, on the CPU: what it writes, and what it survives."""

import importlib
import json
import sys
import threading
from itertools import count

import pytest

from tests.helpers.scripts import HANGS


@pytest.fixture
def accelerator():
    return importlib.import_module("accelerator")


def make_step(workload, kind):
    """A contestant's step: "quick"; "slow", which never ends; "failing" after some calls."""
    if kind == "missing":
        raise ImportError("No module named 'nothing'")
    calls = count()

    def step():
        if kind == "slow":
            threading.Event().wait()
        if next(calls) >= 100 and kind == "failing":
            raise MemoryError("out of memory\nOf 80 GB 79 were taken.")
        return 1.0

    return step


@pytest.mark.long
def test_a_step_is_measured_and_written(accelerator, monkeypatch, tmp_path):
    """Catches a contestant, a part or a table that no longer works before a card is there."""
    output = tmp_path / "result"
    flags = "--device=cpu", "--small", f"--output={output}", "--only=scaled"
    monkeypatch.setattr(sys, "argv", ["accelerator.py", *flags])
    monkeypatch.setenv("TMPDIR", "")  # which it sets
    accelerator.main()
    (row,) = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))["rows"]
    assert (row["task"], row["remark"]) == ("training small", "")
    assert len(row["seconds"]) == 5 and row["tokens_per_second"] > 0
    table = output.with_suffix(".md").read_text(encoding="utf-8")
    assert f"{row['tokens_per_second']:,.0f}" in table


@pytest.mark.long
def test_what_goes_wrong_is_a_line_and_not_the_end(accelerator, monkeypatch, tmp_path):
    """Catches figures lost with a process that fails, and one that is waited for without end."""
    monkeypatch.setattr(importlib.import_module("run_part"), "ROUND_SECONDS", 1e9)  # of 50 steps
    parts, rows = importlib.import_module("accelerator_parts"), {}
    task = parts.Task(parts.SMALL_WORKLOAD, {"": {}}, num_tokens=128)
    for kind in ("missing", "failing", "slow", "quick"):
        process = sys.executable, __name__, {"kind": kind}
        part = parts.Part("fake", kind, process, lambda folder: task)
        seconds = 1 if kind == "slow" else HANGS
        (rows[kind],) = accelerator.run_part(part, str(tmp_path), seconds)
    assert rows["missing"]["remark"] == "No module named 'nothing'"
    assert rows["failing"]["remark"] == "failed: MemoryError: out of memory"
    assert len(rows["failing"]["seconds"]) == 1 and rows["failing"]["tokens_per_second"] > 0
    assert rows["slow"]["remark"] == "cut off after 1 s" and not rows["slow"]["seconds"]
    assert not rows["quick"]["remark"]
    assert "cut off after 1 s" in accelerator.format_rows(list(rows.values()))


def test_every_attention_and_both_sizes_are_measured(accelerator, monkeypatch):
    """Catches a part that is left out of the command for a GPU, or that no GPU is needed for."""
    monkeypatch.setattr(accelerator, "check_device", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["accelerator.py", "--flax_example=wmt"])
    names = [part.name for part in accelerator.list_parts(accelerator.parse_arguments())]
    for size in ("base", "big"):
        for contestant in ("ours", "PyTorch", "Flax's example", "ours, packed, fused"):
            assert f"training {size}, {contestant}" in names
        assert f"search {size}, CTranslate2" in names
    assert "default run, ours" in names
