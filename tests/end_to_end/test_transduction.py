"""Spelling to sounds from the shell: characters in, phones out, judged by whole words."""

import random

import pytest

from tests.helpers.commands import call
from tests.helpers.tiny_runs import train
from transformer.data.tokenizers.files import load_tokenizers
from transformer.workdir import WorkDir

SPELLING = ["model.norm=pre", "model.embedding_sharing=target", "tokenizer.shared=False"]
SPELLING += ["tokenizer.kind=characters", "tokenizer.target_kind=pieces", "tokenizer.joiner="]
SPELLING += ["data.source_language=toy", "data.target_language=ipa", "data.row_length=32"]
SPELLING += ["data.selection_metric=line_error_rate", "data.bleu_tokenize=none"]
SPELLING += ["data.validation_split=val", "data.test_split=val", "decoding.beam_size=2"]
SPELLING += ["optimizer.warmup_steps=40", "training.num_train_steps=320"]
SPELLING += ["training.batch_tokens=512", "training.keep_checkpoints=4"]
SPELLING += ["training.eval_every=80", "training.checkpoint_every=80"]
SOUNDS = {"a": "aː", "b": "b", "c": "t͡s", "d": "d"}


def pronounce(word):
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
    code, said = train(run, "translation", tmp_path, *SPELLING)
    assert code == 0 and "WER" in said, said
    records, name = WorkDir(run).read_metrics(), "validation_line_error_rate"
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
