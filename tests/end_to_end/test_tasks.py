"""The other tasks as a user meets them: train, score, answer, restore from Python, mistakes."""

import json
import os
import random
import re
import signal
import threading
from unittest.mock import MagicMock

import numpy as np
import pytest

from tests.helpers.commands import call
from tests.helpers.rings import others_long
from tests.helpers.tiny_runs import CHARACTERS, SPLITS, train
from transformer import Classifier, LanguageModel, Tagger
from transformer.inference.file_job import FileJob
from transformer.parallel.stopping import end_on_signals
from transformer.workdir import WorkDir


def evaluate(folder, *arguments, stdin=b""):
    return call("eval.py", f"--workdir={folder}", *arguments, stdin=stdin)


def test_a_classifier_learns_and_is_restored(classes):
    """Catches classes that change their number, and a restored model that is another one."""
    classifier = Classifier.from_checkpoint(classes)
    texts = ["a b", "a x b", "x", "g f e d c b a", ""]
    found = classifier.classify(texts)
    assert [c.label for c in found[:4]] == ["without", "with", "with", "without"]
    for text, together in zip(texts, found, strict=True):
        alone = classifier.classify([text])[0]
        assert alone.probability == pytest.approx(together.probability, abs=1e-5)
        assert sum(alone.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert classifier.classify([]) == []
    with pytest.raises(ValueError, match="list of sentences"):
        classifier.classify("a b")
    long = classifier.classify(["a " * 50])
    assert len(long) == classifier.num_truncated == 1


def test_eval_scores_and_answers_line_by_line(classes):
    """Catches an accuracy that its examples contradict, and answers to other lines."""
    code, out, err = evaluate(classes)
    assert code == 0, err
    assert b"accuracy" in out and b"interval:wilson" in out
    report = json.loads((classes / "results" / "train_80_" / "report.json").read_text())
    assert report["accuracy"]["num_sentences"] == 60 and report["accuracy"]["value"] > 95
    rows = (classes / "results" / "train_80_" / "examples.jsonl").read_text().splitlines()
    right = [row["label"] == row["found"] for row in map(json.loads, rows)]
    assert 100 * sum(right) / 60 == pytest.approx(report["accuracy"]["value"])
    code, out, err = evaluate(classes, "--input=-", stdin=b"a b\nx a\n")
    assert (code, out) == (0, b"without\nwith\n"), err
    code, out, _ = evaluate(classes, "--input=-", "--jsonl", stdin=b"a b\n")
    assert json.loads(out)["probabilities"].keys() == {"with", "without"}


@pytest.mark.long
def test_words_get_their_labels(tmp_path):
    """Catches labels of other words, a loss over the pieces between, and a cut that is not said."""
    rng, rows = random.Random(0), []
    for _ in range(300):  # an x makes an entity of the words around it
        words = [rng.choice(("ab", "cd", "e")) for _ in range(rng.randint(1, 4))]
        labels = ["O"] * len(words)
        if rng.random() < 0.6:
            words, labels = [*words, "xa", "b", "c"], [*labels, "B-X", "I-X", "O"]
        rows.append("".join(f"{w} {label}\n" for w, label in zip(words, labels, strict=True)))
    (tmp_path / "train.conll").write_text("\n".join(rows))
    run = tmp_path / "run"
    code, err = train(run, "token_classification", tmp_path, *SPLITS, CHARACTERS)
    assert code == 0, err
    code, out, err = evaluate(run, "--input=-", stdin=b"cd xa b c\n\nab\n")
    assert (code, out) == (0, b"O B-X I-X O\n\nO\n"), err
    code, out, err = evaluate(run)
    assert b"entity F1" in out and b"words" in out, err
    report = json.loads((run / "results" / "train_80_" / "report.json").read_text())
    assert report["f1"]["value"] > 95
    tagger = Tagger.from_checkpoint(run)
    texts = ["xa b", "cd xa b c e", "ab " * 12]
    together = tagger.tag(texts)
    assert tagger.num_truncated == 1
    assert together == [tagger.tag([text])[0] for text in texts]
    assert together[2] == ["O"] * 8 + ["?"] * 4  # 15 of 24 letters, and the end


@pytest.mark.long
def test_a_language_model_continues_a_prompt(text):
    """Catches a prompt or an option that is not heeded, a window that is lost when it is full, and
    a loss of other units."""
    model = LanguageModel.from_checkpoint(text)
    options = dict(temperature=0.0, num_pieces=50)
    found = model.generate(["ab", "abcdefgh\nabc", ""], **options)
    assert found[1:] == [("defgh\n" + "abcdefgh\n" * 9)[:50], ("abcdefgh\n" * 9)[:50]]
    assert model.generate([]) == []
    options = dict(temperature=2.0, num_pieces=40)
    first, second = (model.generate(["abc"], seed=seed, **options) for seed in (3, 4))
    assert first != second
    for name, value in (("num_pieces", 0), ("top_p", 2.0)):
        with pytest.raises(ValueError, match=f"{name} must be "):
            model.generate(["a"], **{name: value})
    code, out, err = evaluate(text)
    assert code == 0, err
    assert b"nats per piece 0.0" in out or b"nats per piece 0.1" in out
    code, out, err = evaluate(text, "--prompt=abc", "--num_pieces=5", "--temperature=0")
    assert (code, out) == (0, b"abcdefgh\n"), err
    code, out, err = evaluate(text, "--input=-", "--top_k=1", stdin=b"abc\nabcdef\n")
    assert (code, out) == (0, b"defgh\ngh\n"), err


def validations(run, metric):
    """The values of a metric on the validation set, in order."""
    return [record[metric] for record in WorkDir(run).read_metrics() if metric in record]


@pytest.mark.long
def test_a_masked_model_learns(tmp_path):
    """Catches a pre-training that learns nothing."""
    letters = random.Random(0).choices("abcdefgx", k=300)
    (tmp_path / "train.txt").write_text("\n".join(letter * 6 for letter in letters))
    code, err = train(tmp_path / "masked", "masked_lm", tmp_path, *SPLITS, CHARACTERS)
    assert code == 0, err
    losses = validations(tmp_path / "masked", "validation_loss")
    assert losses[-1] < 1.0 < losses[0] or losses[-1] < 0.7  # 2.1 by chance


@pytest.mark.long
def test_pairs_are_pre_trained_and_classified(tmp_path):
    """Catches pairs that a classifier does not see as its pre-training did, or sees as one text,
    and a warm start that takes nothing."""
    rng, documents, rows = random.Random(0), [], []
    for _ in range(150):  # all lines of a document have one word in common
        word = rng.choice("abcd")
        lines = [[word, rng.choice("xyz")] for _ in range(rng.randint(2, 6))]
        documents.append("\n".join(" ".join(rng.sample(line, 2)) for line in lines))
        other = rng.choice("abcd")
        rows.append(f"{word == other}\t{word} {rng.choice('xyz')}\t{other} {rng.choice('xyz')}\n")
    (tmp_path / "train.txt").write_text("\n\n".join(documents))
    (tmp_path / "train.tsv").write_text("".join(rows))
    shared = [*SPLITS, CHARACTERS, "model.token_types=True", "model.pooling=pooler"]
    masked, start = tmp_path / "masked", f"training.init_from={tmp_path / 'masked'}"
    code, err = train(masked, "masked_lm", tmp_path, *shared, "model.next_sentence=True")
    assert code == 0, err
    assert "tokens are cut off their pairs" in err
    found = validations(masked, "validation_next_sentence_accuracy")
    assert all(40 < accuracy <= 100 for accuracy in found)
    code, out, err = evaluate(masked)
    assert code == 0 and b"nats per masked token" in out, err
    code, err = train(tmp_path / "tuned", "classification", tmp_path, *shared, start)
    assert code == 0, err
    assert re.search("warm start from .*, 2 others begin fresh\n", err)
    code, out, err = evaluate(tmp_path / "tuned", "--input=-", stdin=b"a x\ta y\na\n")
    assert code == 0 and len(out.split()) == 2, err


@pytest.mark.long
def test_images_are_learnt_and_other_shapes_refused(tmp_path):
    """Catches patches out of order, and images of another shape or range that are classified."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    images = rng.random((200, 4, 4)) * 0.5
    images[labels == 1, :2, :2] += 0.5  # bright at the top left
    np.savez(tmp_path / "train.npz", images=images, labels=labels)
    code, err = train(tmp_path / "run", "images", tmp_path, *SPLITS, "data.patch_size=2")
    assert code == 0, err
    classifier = Classifier.from_checkpoint(tmp_path / "run")
    found = classifier.classify(images[160:])
    assert np.mean([c.label == str(n) for c, n in zip(found, labels[160:], strict=True)]) > 0.9
    with pytest.raises(ValueError, match="images of 4 × 4 × 1, not an array"):
        classifier.classify(images[:, :3])
    with pytest.raises(ValueError, match="from 0 to 1, these go from 0 to 255; divide"):
        classifier.classify(np.eye(4, dtype=np.uint8)[None] * 255)
    np.savez(tmp_path / "test.npz", images=images[:, :2], labels=labels)
    for wrong, said in (
        ("data.test_split=test", "'test' are (2, 4, 1), and those that are trained on (4, 4, 1)"),
        ("data.patch_size=3", "data.patch_size (3) must divide"),
    ):
        code, err = train(tmp_path / "other", "images", tmp_path, *SPLITS, wrong)
        assert code == 2 and said in err and err.count("\n") == 1, err


@pytest.mark.parametrize("kind", others_long(["classes", "text"], "classes"))
def test_a_job_that_was_stopped_is_resumed(kind, request, tmp_path, monkeypatch):
    """Catches half a file under its name, lines answered anew, and repairs that nobody is told."""
    run, source, target = request.getfixturevalue(kind), tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a b\nx\xff\n" + b"a b c d e f g h\n" * 5)
    flags = [f"--input={source}"]
    flags += ["--num_pieces=9", "--seed=5"] if kind == "text" else []
    code, expected, err = evaluate(run, *flags)
    assert code == 0 and expected.count(b"\n") == 7, err
    output, work, chunks = [f"--output={target}", "--chunk_lines=3"], FileJob.run_chunk, []

    def stop_at_the_second(job, chunk):
        chunks.append(chunk.number)
        if len(chunks) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return work(job, chunk)

    monkeypatch.setattr(FileJob, "run_chunk", stop_at_the_second)
    monkeypatch.setattr(threading, "Timer", MagicMock())  # which ends this process otherwise
    end_on_signals()
    code, out, err = evaluate(run, *flags, *output)
    assert (code, out) == (75, b"")
    assert err.count("give the same command again") == 1 and "Traceback" not in err
    assert not target.exists() and len(list((tmp_path / "out.parts").glob("0*"))) == 1
    code, out, err = evaluate(run, *flags, *output)
    assert code == 0 and chunks == [0, 1, 1, 2], err
    assert target.read_bytes() == expected
    assert f"1 lines that are not UTF-8, bytes replaced ({source} line 2)" in err
    if kind == "text":
        assert "4 lines too long to be continued" in err
