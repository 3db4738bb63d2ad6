"""Spelling to sounds from the shell: characters in, phones out, judged by whole words."""

import json
import random

import pytest

from tests.helpers.commands import call
from transformer.data.tokenizers.files import load_tokenizers

CONFIG = """
from transformer.config import Config

def get_config():
    config = Config()
    config.model.d_model, config.model.d_ff = 32, 64
    config.model.num_heads, config.model.num_layers = 2, 1
    config.model.norm = "pre"
    config.model.embedding_sharing = "target"
    config.tokenizer.kind, config.tokenizer.target_kind = "characters", "pieces"
    config.tokenizer.joiner, config.tokenizer.shared = "", False
    config.data.corpus, config.data.row_length = "{corpus}", 32
    config.data.source_language, config.data.target_language = "toy", "ipa"
    config.data.validation_split = config.data.test_split = "val"
    config.data.selection_metric, config.data.bleu_tokenize = "line_error_rate", "none"
    config.optimizer.warmup_steps, config.optimizer.peak_learning_rate = 40, 0.01
    config.model.dropout_rate = 0.0
    config.training.num_train_steps, config.training.batch_tokens = 320, 512
    config.training.eval_every = config.training.checkpoint_every = 80
    config.training.keep_checkpoints, config.decoding.beam_size = 4, 2
    config.decoding.batch_size = 4
    return config
"""
SOUNDS = {"a": "aː", "b": "b", "c": "t͡s", "d": "d"}


def pronounce(word):
    """A sound a letter."""
    return " ".join(SOUNDS[letter] for letter in word)


@pytest.mark.long
def test_words_are_learnt_and_the_best_checkpoint_makes_the_fewest_errors(tmp_path):
    """Catches a source split at spaces, phones that are joined in what is compared, tokenizers of
    both sides swapped when they are restored, and the best taken for the highest error rate.
    """
    rng, run = random.Random(0), tmp_path / "run"
    for split, count in (("train", 400), ("val", 40)):
        words = ["".join(rng.choices("abcd", k=rng.randint(2, 5))) for _ in range(count)]
        rows = "".join(f"{word}\t{pronounce(word)}\n" for word in words)
        (tmp_path / f"{split}.tsv").write_text(rows, encoding="utf-8")
    (tmp_path / "toy.py").write_text(CONFIG.format(corpus=tmp_path))
    code, _, said = call("train.py", f"--config={tmp_path / 'toy.py'}", f"--workdir={run}")
    assert code == 0 and "WER" in said, said
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    name = "validation_line_error_rate"
    rates = {record["step"]: record[name] for record in records if name in record}
    assert list(rates) == [80, 160, 240, 320]
    assert min(rates.values()) <= 10

    _, out, said = call("eval.py", f"--workdir={run}", "--checkpoints=best")
    chosen = [step for step in rates if f"best ({step})" in said]
    assert chosen and rates[chosen[0]] == min(rates.values()) < max(rates.values())
    assert out.decode().startswith("WER ")

    source, target = load_tokenizers(run)
    assert (source.suffix, target.suffix) == (".characters", ".vocab")
    code, out, _ = call("eval.py", f"--workdir={run}", "--input=-", stdin=b"abcd\ndab\n")
    assert code == 0
    assert out.decode().splitlines() == [pronounce("abcd"), pronounce("dab")]
