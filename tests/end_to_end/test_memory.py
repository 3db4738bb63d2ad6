"""The memory of a training run does not grow with its steps, however large the corpus is."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers.xla_flags import xla_flags

NUM_PAIRS, NUM_STEPS, WARM = 1_000_000, 2_000, 400
LIMIT = 8 << 10  # KiB; one epoch's lengths and order as arrays would be 12 MiB
TRAIN = """
import json, sys
from pathlib import Path
import transformer
from transformer.config import Config
from transformer.tasks.translation import TranslationTask

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

class Watched(TranslationTask):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.training_batches = WatchedBatches(self.training_batches)

class WatchedBatches:
    def __init__(self, batches):
        self.batches = batches
    def __getattr__(self, name):
        return getattr(self.batches, name)
    def __getitem__(self, step):
        return self.part(step, 0, self.batches.rows_per_batch)
    def part(self, step, *rows):
        memory[step] = anonymous()
        return self.batches.part(step, *rows)

memory = {}
config = Config().with_values(json.loads(sys.argv[2]))
result = transformer.train(config, sys.argv[1], task_type=Watched)
assert result.is_finished
print(json.dumps(memory))
"""
SETTINGS = {
    "model.d_model": 8,
    "model.d_ff": 8,
    "model.num_heads": 1,
    "model.num_layers": 1,
    "tokenizer.kind": "characters",
    "data.row_length": 16,
    "data.max_validation_sentences": 8,
    "training.batch_tokens": 128,
    "training.num_train_steps": NUM_STEPS,
    "training.eval_every": NUM_STEPS,
    "training.checkpoint_every": NUM_STEPS,
}
ONE_DEVICE = {**os.environ, "XLA_FLAGS": xla_flags(1)}


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_2000_steps_of_a_million_pairs(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    lines = [f"{i}\t{i * 7919 % NUM_PAIRS}\n" for i in range(NUM_PAIRS)]
    (corpus / "train.tsv").write_text("".join(lines))
    for name in "validation", "test":
        (corpus / f"{name}.tsv").write_text("a\tb\n" * 8)
    settings = json.dumps({**SETTINGS, "data.corpus": str(corpus)})
    command = [sys.executable, "-c", TRAIN, tmp_path / "run", settings]
    result = subprocess.run(command, capture_output=True, text=True, env=ONE_DEVICE)
    assert result.returncode == 0, result.stderr[-2000:]
    memory = {int(step): size for step, size in json.loads(result.stdout.splitlines()[-1]).items()}
    assert max(memory) >= NUM_STEPS - 100
    grown = max(size for step, size in memory.items() if step >= WARM) - memory[WARM]
    assert grown < LIMIT, memory
