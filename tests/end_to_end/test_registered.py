"""What a user's own file registers works in train.py, eval.py and restore, without a fork."""

import json

import pytest

import transformer
from tests.helpers.commands import call
from tests.helpers.process_state import own_names
from tests.helpers.scripts import write_corpus
from tests.helpers.tiny_runs import SETTINGS

OWN = '''
import jax.numpy as jnp
import transformer
from transformer.config import Config
from transformer.model.attention_functions import dot_product_attention
from transformer.tasks.translation import TranslationTask


@transformer.register_attention("cosine")
def cosine(query, key, value, *, mask=None, dropout=None):
    query, key = (x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6) for x in (query, key))
    return dot_product_attention(10 * query, key, value, mask=mask, dropout=dropout)


@transformer.register_metric("same_length", label="equally long")
def same_length(translation, reference):
    return 100.0 * (len(translation.split()) == len(reference.split()))


@transformer.register_task("half_loss")
class HalfLoss(TranslationTask):
    """Translation, at half the price."""

    def loss_fn(self, params, batch, rng):
        loss, sums = super().loss_fn(params, batch, rng)
        return loss / 2, sums | {"loss": sums["loss"] / 2}


def get_config():
    config = Config(task="half_loss")
    config.model.attention, config.data.selection_metric = "cosine", "same_length"
    config.tokenizer.kind = "pieces"
    return config
'''


@pytest.mark.long
def test_a_run_is_trained_and_opened_with_what_a_file_registers(tmp_path):
    """Catches a registered loss or metric without effect, code that a run brings along, and a name
    that stays unknown."""
    corpus, run, own = write_corpus(tmp_path / "corpus", 60), tmp_path / "run", tmp_path / "own.py"
    own.write_text(OWN)
    settings = SETTINGS | {"training.num_train_steps": 4, "training.eval_every": 4}
    settings |= {"data.corpus": corpus, "data.validation_split": "val", "data.test_split": "val"}
    settings |= {"decoding.beam_size": 1, "decoding.max_extra_length": 0, "model.d_model": 8}
    arguments = [f"--config.{name}={value}" for name, value in settings.items()]
    with own_names():
        code, _, err = call("train.py", f"--config={own}", f"--workdir={run}", *arguments)
    assert code == 0, err
    records = [json.loads(line) for line in (run / "metrics.jsonl").open()]
    losses = [record["loss"] for record in records if "loss" in record]
    assert losses[0] < 2.5  # half of what guessing costs
    assert any("validation_same_length" in record for record in records)
    assert 0 <= records[-1]["test_same_length"] <= 100

    words = "eval.py", f"--workdir={run}"
    code, _, err = call(*words)
    assert code == 2 and err.count("\n") == err.count(f"error: {run}") == 3
    assert "task must be one of translation," in err and "--register=FILE" in err
    code, _, err = call(*words, f"--register={tmp_path / 'no.py'}")
    assert code == 2 and "--register must name a Python file" in err
    code, out, err = call(*words, f"--register={own}", "--batch_size=4")
    assert code == 0, err
    assert b"equally long" in out and b"BLEU" in out
    assert transformer.restore(run).config.model.attention == "cosine"
    code, _, err = call("train.py", f"--workdir={run}")
    assert code == 0 and "already finished" in err
