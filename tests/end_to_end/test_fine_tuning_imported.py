"""Runs that start from an imported OPUS-MT, BERT or GPT-2: what they take, and that they learn."""

import math
import random

import pytest

import transformer
from configs import fine_tune
from tests.helpers.imported import GOLDEN, write_run
from transformer.interop.huggingface import bert, gpt2
from transformer.interop.huggingface.seq2seq import read_seq2seq
from transformer.workdir import WorkDir

WORDS = ["the", "cat", "sat", "on", "mat", "who", "is", "in", "it", "ein", "eine"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sentences with and without a cat, as a text, with their class, and as `pairs`."""
    folder, rng = tmp_path_factory.mktemp("corpus"), random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(2, 6))) for _ in range(120)]
    rows = [f"{'cat' if 'cat' in text else 'none'}\t{text}\n" for text in texts]
    pairs = folder / "pairs"
    pairs.mkdir()
    for split in ("train", "validation", "test"):
        (folder / f"{split}.tsv").write_text("".join(rows))
        (folder / f"{split}.txt").write_text("\n".join(texts))
        (pairs / f"{split}.en").write_text("\n".join(texts))
        (pairs / f"{split}.de").write_text("\n".join(text[::-1] for text in texts))
    return folder


def fine_tuned(run, workdir, corpus, **changes):
    """Fine-tunes for 20 steps, the parameters divided over devices; returns validation losses."""
    config = fine_tune.get_config(str(run))
    training = config.training
    training.num_train_steps = training.eval_every = training.checkpoint_every = 20
    training.batch_tokens, config.optimizer.peak_learning_rate = 192, 3e-3
    config.data.corpus, config.mesh.fsdp = str(corpus), 2
    transformer.train(config.with_values(changes), workdir)
    rows = WorkDir(workdir).read_metrics()
    return [row["validation_loss"] for row in rows if "validation_loss" in row]


@pytest.mark.long
def test_a_classifier_takes_encoder_and_pooler(corpus, tmp_path, capsys):
    """Catches a pooler that begins afresh though the file has one, and steps that learn nothing."""
    imported = bert.read(GOLDEN / "bert")
    run = write_run(imported, tmp_path / "bert")
    losses = fine_tuned(run, tmp_path / "tuned", corpus, task="classification")
    assert "others begin fresh" in capsys.readouterr().err
    assert losses[-1] < losses[0]
    found = transformer.restore(tmp_path / "tuned", "last")
    assert found.tokenizers[0].to_bytes() == imported.tokenizers[0].to_bytes()
    pooler = found.params["pooler"]["dense"]["kernel"]
    assert 0 < abs(pooler - imported.params["pooler/dense/kernel"]).max() < 0.1


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpt2", "marianmt_shared"])
def test_a_model_begins_where_it_was(name, corpus, tmp_path):
    """Catches a loss that begins at ln V, or with text that is split into other tokens, and an
    array that a mesh of three axes cannot divide."""
    changes, options, read = {}, {}, gpt2.read
    if name != "gpt2":
        corpus, options, read = corpus / "pairs", {"beam_size": 1}, read_seq2seq
        changes = {"mesh.tensor": 2, "training.label_smoothing": 0.0, "decoding.beam_size": 1}
        changes |= {"data.max_validation_sentences": 4, "data.selection_metric": "bleu"}
    run = write_run(read(GOLDEN / name), tmp_path / "run")
    losses = fine_tuned(run, tmp_path / "tuned", corpus, **changes)
    before = transformer.evaluate(run, corpus=str(corpus), split="validation", **options)
    perplexity = before.scores["perplexity"].value
    assert math.exp(losses[0]) == pytest.approx(perplexity, rel=1e-4)
    assert losses[-1] < losses[0]
