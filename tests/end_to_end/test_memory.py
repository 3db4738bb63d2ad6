"""The memory of a training run does not grow with its steps, however large the corpus is."""

import ast
import sys

import pytest

from tests.helpers.scripts import run_python

NUM_PAIRS, NUM_STEPS, WARM = 1_000_000, 2_000, 400
LIMIT = 8 << 10  # KiB; one epoch's lengths and order as arrays would be 12 MiB
TRAIN = """
import sys
from pathlib import Path
import transformer
from transformer.config import Config
from transformer.data.rows.packing import PackedBatches

def note_memory(batches, step, *rows):
    lines = Path("/proc/self/status").read_text().splitlines()
    memory[step] = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return part(batches, step, *rows)

part, PackedBatches.part = PackedBatches.part, note_memory
folder, num_steps, memory = sys.argv[1], int(sys.argv[2]), {}
config = Config()
config.model.d_model, config.model.d_ff = 8, 8
config.model.num_heads, config.model.num_layers = 1, 1
config.tokenizer.kind = "characters"
config.data.corpus, config.data.row_length = f"{folder}/corpus", 16
config.data.max_validation_sentences = 8
config.training.batch_tokens, config.training.num_train_steps = 128, num_steps
config.training.eval_every = config.training.checkpoint_every = num_steps
assert transformer.train(config, f"{folder}/run").is_finished
print(memory)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_2000_steps_of_a_million_pairs(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    lines = [f"{i}\t{i * 7919 % NUM_PAIRS}\n" for i in range(NUM_PAIRS)]
    (corpus / "train.tsv").write_text("".join(lines))
    for name in "validation", "test":
        (corpus / f"{name}.tsv").write_text("a\tb\n" * 8)
    code, out, err = run_python(TRAIN, tmp_path, NUM_STEPS)
    assert code == 0, err[-2000:]
    memory = ast.literal_eval(out.decode().splitlines()[-1])
    assert max(memory) >= NUM_STEPS - 100
    grown = max(size for step, size in memory.items() if step >= WARM) - memory[WARM]
    assert grown < LIMIT, memory
