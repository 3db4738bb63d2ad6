"""An ensemble gives tokens the mean of its models' probabilities, in a search as in scoring."""

import jax
import numpy as np
import pytest

from tests.helpers.random_runs import WORDS, write_run
from transformer.checkpoint.restore import restore
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.inference.translator import Translator
from transformer.model.encoder_decoder import log_mean

SOURCES = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w2", ""]
ONE = dict(devices=jax.local_devices()[:1])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one vocabulary with other networks, and one of another vocabulary."""
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "a", steps=(10, 20))
    write_run(folder / "b", num_layers=2, d_model=32, norm="pre")
    write_run(folder / "c", tokenizer=PiecesTokenizer([*WORDS[1:], "other"], "@@"))
    return folder


@pytest.mark.long
def test_scores_and_searches_by_the_mean_probability(runs):
    """Catches logits that are added, a cache of another model, and a mean of logarithms."""
    members = [Translator.from_checkpoint(runs / name, **ONE) for name in "ab"]
    both = Translator.from_checkpoints([runs / "a", runs / "b"], **ONE)
    found = both.translate(SOURCES)
    texts = [t.text for t in found[:3]]
    logits = [member.logits(SOURCES[:3], texts).values for member in members]
    expected = np.log(np.mean([jax.nn.softmax(each) for each in logits], axis=0))
    scored = both.score(SOURCES[:3], texts)
    for index, translation in enumerate(found[:3]):
        by_hand = expected[index, range(len(translation.ids)), translation.ids].sum()
        assert translation.log_prob == pytest.approx(by_hand, abs=1e-4)
        assert scored[index].log_prob == pytest.approx(by_hand, abs=1e-4)
    assert "b best (20)" in repr(both) and found[3].text == ""
    assert both.attention(SOURCES[0], found[0]).encoder_decoder.shape[0] == 1
    with pytest.raises(ValueError, match="no vectors of a source"):
        both.encode(SOURCES[:1])


def test_a_model_with_itself_is_that_model(runs):
    """Catches a search that is changed by how an ensemble computes, an "@" in a path, a mean of
    logits or of logarithms, which a model with itself does not show, and <object at 0x…>."""
    one = Translator.from_checkpoint(runs / "a", "20", **ONE)
    alone = one.translate(SOURCES, nbest=2)
    assert repr(one) == f"Translator({runs / 'a'}, 20, 5,760 parameters, float32, 1 × cpu)"
    said = f"Run({runs / 'a'}, best (10), translation, 5,760 parameters)"
    assert repr(restore(runs / "a")) == said
    (runs / "me@lab").mkdir()
    (runs / "me@lab" / "a").symlink_to(runs / "a")
    both = Translator.from_checkpoints([f"{runs}/a@20", f"{runs}/me@lab/a@20"], **ONE)
    twice = both.translate(SOURCES, nbest=2)
    for ours, theirs in zip(twice, alone, strict=True):
        assert [t.ids for t in ours] == [t.ids for t in theirs]
        assert [t.score for t in ours] == pytest.approx([t.score for t in theirs], abs=1e-5)
    mean = np.exp(log_mean(3 + np.log([[0.9, 0.1], [0.3, 0.7]])))
    np.testing.assert_allclose(mean, [0.6, 0.4], rtol=1e-5)


def test_other_members_are_refused_or_not_rounded(runs, tmp_path):
    """Catches the probabilities of other words averaged with ours, and a float32 member behind one
    in bfloat16, which is computed with other weights."""
    with pytest.raises(ValueError, match=r"one vocabulary.*which .*c does not share with .*a\."):
        Translator.from_checkpoints([runs / "a", runs / "c"])
    write_run(tmp_path / "half", dtype="bfloat16")
    both = Translator.from_checkpoints([tmp_path / "half", runs / "a"], **ONE)
    assert {array.dtype.name for array in jax.tree.leaves(both.params)} == {"float32"}
