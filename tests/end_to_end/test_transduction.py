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


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A run on 400 words, and what it said."""
    folder, rng = tmp_path_factory.mktemp("toy"), random.Random(0)
    for split, count in (("train", 400), ("val", 40)):
        words = ["".join(rng.choices("abcd", k=rng.randint(2, 5))) for _ in range(count)]
        rows = "".join(f"{word}\t{pronounce(word)}\n" for word in words)
        (folder / f"{split}.tsv").write_text(rows, encoding="utf-8")
    (folder / "toy.py").write_text(CONFIG.format(corpus=folder))
    code, _, said = call("train.py", f"--config={folder / 'toy.py'}", f"--workdir={folder / 'run'}")
    assert code == 0, said
    (folder / "run" / "said.txt").write_text(said)
    return folder / "run"


def measured(workdir):
    """Step -> validation WER."""
    records = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    name = "validation_line_error_rate"
    return {record["step"]: record[name] for record in records if name in record}


@pytest.mark.long
def test_words_are_learnt(workdir):
    """Catches a source split at spaces, and phones that are joined in what is compared."""
    assert list(measured(workdir)) == [80, 160, 240, 320]
    assert min(measured(workdir).values()) <= 10
    assert "WER" in (workdir / "said.txt").read_text()


@pytest.mark.long
def test_the_best_checkpoint_has_the_lowest_error_rate(workdir):
    """Catches the best taken for the highest: the worst model of the run, published."""
    _, out, said = call("eval.py", f"--workdir={workdir}", "--checkpoints=best")
    rates = measured(workdir)
    chosen = [step for step in rates if f"best ({step})" in said]
    assert chosen and rates[chosen[0]] == min(rates.values()) < max(rates.values())
    assert out.decode().startswith("WER ")


@pytest.mark.long
def test_a_translation_is_phones_with_spaces_between(workdir):
    """Catches tokenizers of both sides swapped when they are restored."""
    source, target = load_tokenizers(workdir)
    assert (source.suffix, target.suffix) == (".characters", ".vocab")
    code, out, _ = call("eval.py", f"--workdir={workdir}", "--input=-", stdin=b"abcd\ndab\n")
    assert code == 0
    assert out.decode().splitlines() == [pronounce("abcd"), pronounce("dab")]
