"""Long work: what a process holds must not grow with the steps and lines behind it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers.resources import grown
from tests.helpers.scripts import run_python, write_config
from tests.torture import Outcome, Trial

HARM = "10,000 steps with evaluations; 1,000,000 lines translated"
NUM_STEPS, NUM_LINES = 10_000, 1_000_000
TRAIN = """
import json, runpy, sys
import transformer
from tests.helpers.resources import Resources
from transformer.training import progress
from transformer.training.trainer import Trainer

config = runpy.run_path(sys.argv[1])["get_config"]().with_values(json.loads(sys.argv[3]))
resources, evaluate = Resources(), Trainer._evaluate
progress.DRAWING_SHARE = float("inf")  # curves are drawn at each evaluation, not as time allows

def evaluate_and_sample(trainer, *arguments):
    evaluate(trainer, *arguments)
    trainer.checkpoints.wait()
    resources.sample()

Trainer._evaluate = evaluate_and_sample
result = transformer.train(config, sys.argv[2])
assert result.is_finished, result
print(json.dumps(resources.samples))
"""
TRANSLATE = """
import json, sys
from tests.helpers.resources import Resources
from transformer.cli.commands import evaluate
from transformer.inference.file_job import FileJob

resources, run_chunk = Resources(), FileJob.run_chunk

def run_and_sample(job, chunk):
    resources.sample()
    return run_chunk(job, chunk)

FileJob.run_chunk = run_and_sample
code = evaluate.main(["eval.py", *sys.argv[1:]])
print(json.dumps(resources.samples))
sys.exit(code)
"""


def trials(folder: Path, seed: int) -> Iterator[Trial]:
    """Yields one trial of training, and then one of translating with what was trained."""
    config, run = write_config(folder), folder / "run"
    yield judge(f"{NUM_STEPS:,} steps", *train(config, run, NUM_STEPS, seed))
    yield judge(f"{NUM_LINES:,} lines", *translate(folder, run, NUM_LINES))


def train(config: Path, run: Path, num_steps: int, seed: int = 2) -> tuple[list[Any], str]:
    """What a training process held after each evaluation, and what it said."""
    settings = {
        "model.d_model": 16,
        "model.d_ff": 16,
        "decoding.beam_size": 1,
        "decoding.max_extra_length": 0,
        "training.seed": seed,
        "training.batch_tokens": 128,
        "training.num_train_steps": num_steps,
        "training.log_every": max(1, num_steps // 100),
        "training.eval_every": max(1, num_steps // 40),
        "training.checkpoint_every": max(1, num_steps // 40),
    }
    return held(TRAIN, config, run, json.dumps(settings))


def translate(folder: Path, run: Path, num_lines: int) -> tuple[list[Any], str]:
    """What a process held after each chunk of a file that it translated, and what it said."""
    with (folder / "many.txt").open("w") as file:
        for number in range(num_lines):
            print(*str(number * 7919 % num_lines).translate({55: "1", 56: "2", 57: "3"}), file=file)
    words = f"--workdir={run}", f"--input={folder}/many.txt", f"--output={folder}/many.out"
    words += (f"--chunk_lines={max(1, num_lines // 100)}",)
    samples, said = held(TRANSLATE, *words)
    out = folder / "many.out"
    num_answers = out.read_bytes().count(b"\n") if out.exists() else 0
    return (samples if num_answers == num_lines else []), said


def held(program: str, *arguments: Any) -> tuple[list[Any], str]:
    """What a program says on standard output that it held, and its standard error."""
    code, out, err = run_python(program, *arguments, timeout=None)
    return (json.loads(out.splitlines()[-1]) if code == 0 else []), err


def judge(work: str, samples: list[Any], said: str) -> Trial:
    """Survived, if nothing grew in the last half."""
    if not samples:
        return Trial(work, Outcome.LOST, said[-2000:])
    found = grown(samples)
    ends = f"{len(samples)} samples, from {samples[len(samples) // 4]} to {samples[-1]}"
    print(f"{work}: {ends}", flush=True)
    return Trial(work, Outcome.LOST if found else Outcome.SURVIVED, f"grown: {found}; {ends}")
