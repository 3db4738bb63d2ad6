"""held_out.py: splits that are taken out of the training text."""

import random

import pytest
from etils import epath

from transformer.config import Config, DataConfig
from transformer.data.corpora.held_out import held_out_parts, position, read_held_out, sentence_key
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared.prepare import Share, training_corpus

SPLITS = ("validation", "test")


def corpus(folder, pairs):
    """A configuration of a corpus folder with nothing but training text."""
    folder.mkdir()
    for ending, side in (("en", 0), ("de", 1)):
        (folder / f"train.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return DataConfig(corpus=str(folder), held_out="validation@10%,test@20%")


def load(config):
    """(the training pairs, those of each split that is held out)."""
    held_out = {split: load_evaluation_pairs(config, split) for split in SPLITS}
    return list(TrainingText(config).pairs()), held_out


def make_pairs():
    """Pairs of which many share a sentence on one side, but for case and punctuation."""
    rng = random.Random(0)
    pairs = [(f"source {n}", f"Ziel {n}") for n in range(600)]
    pairs += [(f"Source {n}!", f"anderes Ziel {n}") for n in range(0, 600, 3)]
    pairs += [(f"other source {n}", f"ziel, {n}") for n in range(0, 600, 3)]
    rng.shuffle(pairs)
    return pairs


def test_no_held_out_sentence_is_trained_on(tmp_path):
    """Catches a sentence on both sides: a paraphrase's source, or the same target again."""
    training, held_out = load(corpus(tmp_path / "a", make_pairs()))
    sides = [{sentence_key(pair[side]) for pair in training} for side in (0, 1)]
    for pairs in held_out.values():
        keys = [[sentence_key(pair[side]) for pair in pairs] for side in (0, 1)]
        assert not sides[0] & set(keys[0]) and not sides[1] & set(keys[1])
        assert len(keys[0]) == len(set(keys[0]))  # one reference for each source
    assert not {s for s, _ in held_out["validation"]} & {s for s, _ in held_out["test"]}
    assert 50 < len(held_out["validation"]) < 110 and 110 < len(held_out["test"]) < 210
    assert len(training) > 500


@pytest.mark.parametrize("tags", [("", ""), ("#<a>", "#<b>")])
def test_a_vocabulary_is_learnt_of_what_is_trained_on_in_one_reading(tags, tmp_path, monkeypatch):
    """Catches a vocabulary of the test set, and a text that is read twice for it."""
    config, pairs = corpus(tmp_path / "a", make_pairs()), make_pairs()
    back = corpus(tmp_path / "b", [(target, source) for source, target in pairs])
    config.corpus = f"{config.corpus}{tags[0]},{back.corpus}{tags[1]}"
    text, other = TrainingText(config), TrainingText(config)
    sample = text.sample(10**6)
    monkeypatch.setattr(text, "_blocks", lambda: pytest.fail("the text is read again"))
    assert text.held_out == other.held_out != []
    assert sample == list(other.pairs())


def test_order_and_additions_move_no_sentence(tmp_path):
    """Catches a hold-out by line number, and a hash that another process computes otherwise."""
    pairs = sorted(make_pairs())
    _, before = load(corpus(tmp_path / "a", pairs))
    more = [(f"new {n}", f"neu {n}") for n in range(200)]
    _, after = load(corpus(tmp_path / "b", [*more, *reversed(pairs)]))
    for split in SPLITS:
        old = {sentence_key(source) for source, _ in before[split]}
        new = {sentence_key(source) for source, _ in after[split]}
        assert old <= new and all(key.startswith("new") for key in new - old)
    assert position("a") == pytest.approx(0.2537936)  # a run's config.json relies on it


@pytest.mark.parametrize(
    "text", ["test", "test@", "test@0%", "test@5", "a@30%,b@30%", "a@1%,a@1%", "@3%", "a@-1%"]
)
def test_shares_are_checked(text):
    """Catches a share that holds out nothing or most of the text, and a split named twice."""
    with pytest.raises(ValueError, match=r"^data\.held_out must be splits .* not '.*'\.$"):
        held_out_parts(DataConfig(held_out=text))


def test_a_run_keeps_what_it_held_out(tmp_path):
    """Catches another test set, and scores beside those of the first, once text was added."""
    config = Config(data=corpus(tmp_path / "a", make_pairs()))
    config.tokenizer.kind = "pieces"
    _, prepared = training_corpus(
        config, TrainingText(config.data), epath.Path(tmp_path / "cache"), None, Share()
    )
    prepared.save_notes(epath.Path(tmp_path))
    before = {split: load_evaluation_pairs(config.data, split) for split in SPLITS}
    for language in ("en", "de"):
        (tmp_path / "a" / f"train.{language}").unlink()
    kept = read_held_out(epath.Path(tmp_path))
    assert {split: load_evaluation_pairs(config.data, split, kept) for split in SPLITS} == before
    assert read_held_out(epath.Path(tmp_path / "a")) is None
    (tmp_path / "held_out.json").write_text("[[1")
    with pytest.raises(ValueError, match=r"held_out\.json is damaged: restore it, or remove it"):
        read_held_out(epath.Path(tmp_path))
