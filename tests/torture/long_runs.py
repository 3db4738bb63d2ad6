"""Long work: what a process holds must not grow with the steps and lines behind it."""

import ctypes
import gc
import json
import os
from pathlib import Path
from statistics import median

import jax

from tests.helpers.scripts import run_python, write_config
from tests.torture import Outcome, Trial

HARM = "10,000 steps with evaluations; 1,000,000 lines translated"
NUM_STEPS, NUM_LINES = 10_000, 1_000_000
ALLOWED_SHARE, ALLOWED_KIB = 0.02, 10 << 10  # by which memory may grow in the last half
TRAIN = """
import json, runpy, sys
import transformer
from tests.torture.long_runs import Resources
from transformer.training import progress
from transformer.training.trainer import Trainer

config = runpy.run_path(sys.argv[1])["get_config"]().with_values(json.loads(sys.argv[3]))
resources, evaluate = Resources(), Trainer._evaluate
progress.DRAWING_EVERY = 0.0  # curves are drawn at each evaluation, not as time allows

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
from tests.torture.long_runs import Resources
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


class Resources:
    """Samples what this process holds. programs: how many were compiled, as of the last sample."""

    def __init__(self):
        self.samples, self._num_programs = [], 0
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event, seconds, **_):
        self._num_programs += event == "/jax/core/compile/backend_compile_duration"

    def sample(self):
        """Appends what is held now to `samples`; memory in KiB.

        To be called after each save, evaluation or chunk, when none is under way.
        """
        gc.collect()  # else it would depend on when that happens by itself
        ctypes.CDLL(None).malloc_trim(0)  # what is freed: glibc keeps some of it, by its threads
        lines = Path("/proc/self/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        held = {"memory": int(status["RssAnon"].split()[0]), "threads": int(status["Threads"])}
        held |= {"files": len(os.listdir("/proc/self/fd")), "programs": self._num_programs}
        self.samples.append(held)


def grown(samples):
    """{what grew in the last half: (before, after)}, by the medians of two quarters of the samples.

    What is left behind once per sample grows by half of their number from the median of the one
    quarter to that of the other. Half of that is allowed, as pools of threads still grow to their
    size. No program may be compiled anew.
    """
    quarter = len(samples) // 4
    parts = samples[quarter : 2 * quarter], samples[-quarter:]
    grown = {}
    for name in samples[0]:
        before, after = (median(sample[name] for sample in part) for part in parts)
        memory = ALLOWED_SHARE * before + ALLOWED_KIB
        allowed = {"files": quarter, "threads": quarter, "memory": memory, "programs": 0}
        if after > before + allowed[name]:
            grown[name] = before, after
    return grown


def trials(folder, seed):
    """Yields one trial of training, and then one of translating with what was trained."""
    config, run = write_config(folder), folder / "run"
    yield train(config, run, NUM_STEPS, seed)
    yield translate(folder, run, NUM_LINES)


def train(config, run, num_steps, seed=2):
    """Whether a training process holds more after each evaluation."""
    settings = {"model.d_model": 16, "model.d_ff": 16, "training.batch_tokens": 128}
    settings |= {"decoding.beam_size": 1, "decoding.max_extra_length": 0, "training.seed": seed}
    settings |= {"training.num_train_steps": num_steps}
    for name, times in (("log", 100), ("eval", 40), ("checkpoint", 40)):
        settings[f"training.{name}_every"] = max(1, num_steps // times)
    return judge(f"{num_steps:,} steps", TRAIN, config, run, json.dumps(settings))


def translate(folder, run, num_lines):
    """Whether a process holds more after each chunk of a file that it translates."""
    with (folder / "many.txt").open("w") as file:
        for number in range(num_lines):
            print(*str(number * 7919 % num_lines).translate({55: "1", 56: "2", 57: "3"}), file=file)
    words = f"--workdir={run}", f"--input={folder}/many.txt", f"--output={folder}/many.out"
    chunks = f"--chunk_lines={max(1, num_lines // 100)}"
    trial = judge(f"{num_lines:,} lines", TRANSLATE, *words, chunks)
    out = folder / "many.out"
    is_whole = out.exists() and out.read_bytes().count(b"\n") == num_lines
    return trial if is_whole else trial._replace(outcome=Outcome.LOST)


def judge(work, program, *arguments):
    """Survived, if of what a program says on standard output nothing grew in the last half."""
    code, out, err = run_python(program, *arguments, timeout=None)
    if code != 0:
        return Trial(work, Outcome.LOST, err[-2000:])
    samples = json.loads(out.splitlines()[-1])
    ends = f"{len(samples)} samples, from {samples[len(samples) // 4]} to {samples[-1]}"
    print(f"{work}: {ends}", flush=True)
    found = grown(samples)
    return Trial(work, Outcome.LOST if found else Outcome.SURVIVED, f"grown: {found}; {ends}")
