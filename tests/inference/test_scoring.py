"""What researchers ask of a translation model: states, logits, log-probabilities, and its name."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.random_runs import write_run
from transformer import Translator, restore

SOURCES, TARGETS = ["w1 w2 w3", "w4"], ["w5", "w6 w7"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "x")


@pytest.fixture(scope="module")
def translator(run):
    return Translator.from_checkpoint(run, devices=jax.local_devices()[:2])


def test_logits_and_states_are_those_of_the_model(translator, run):
    """Catches padding that changes a state, a row of another text, and a shifted target."""
    restored = restore(run)
    encoded, logits = translator.encode(SOURCES), translator.logits(SOURCES, TARGETS)
    assert encoded.values.shape == (2, 4, 16) and logits.values.shape == (2, 3, 24)
    np.testing.assert_array_equal(encoded.mask, [[1, 1, 1, 1], [1, 1, 0, 0]])
    assert encoded.pieces == [["w1", "w2", "w3", "</s>"], ["w4", "</s>"]]
    assert logits.pieces == [["w5", "</s>"], ["w6", "w7", "</s>"]]

    @jax.jit
    def by_hand(params, source, target):  # alone and without padding
        apply = partial(restored.model.apply, {"params": params}, deterministic=True)
        positions, segments = jnp.arange(source.shape[1]), jnp.ones_like(source)
        return apply(source, positions, segments, method="encode"), apply(source, target)

    source, target = (
        np.array(tokenizer.encode([texts[1]]))
        for tokenizer, texts in zip(restored.tokenizers, (SOURCES, TARGETS), strict=True)
    )
    states, scores = by_hand(restored.params, source, target)
    np.testing.assert_allclose(encoded.values[1, :2], states[0], atol=1e-5)
    np.testing.assert_allclose(logits.values[1], scores[0], atol=1e-5)


def test_log_probs_add_up_to_the_score(translator):
    """Catches a log-probability of another token, without EOS, or of padding."""
    found = translator.log_probs(SOURCES, TARGETS)
    scores = [t.log_prob for t in translator.score(SOURCES, TARGETS)]
    np.testing.assert_allclose(found.values.sum(1), scores, rtol=1e-6)
    assert not found.values[~found.mask].any() and (found.values[found.mask] < 0).all()
    logits, ids = translator.logits(SOURCES, TARGETS).values[0], [4 + 5, 2]  # w5 and EOS
    by_hand = logits[:2] - np.log(np.exp(logits[:2]).sum(-1, keepdims=True))
    np.testing.assert_allclose(found.values[0, :2], by_hand[[0, 1], ids], atol=1e-5)


def test_what_the_model_cannot_take_is_refused(translator):
    """Catches a text that is cut in silence, and pairs that are dropped."""
    with pytest.raises(ValueError, match="Text 1 has 301 tokens, and the model takes 256"):
        translator.encode(["w1", "w1 " * 300])
    with pytest.raises(ValueError, match="1 sources cannot be paired with 2 targets"):
        translator.log_probs(["w1"], TARGETS)
    with pytest.raises(ValueError, match="encode takes a list of sentences"):
        translator.encode("w1")
    assert translator.encode([]).values.shape[0] == 0


def test_a_repr_says_what_it_is(translator, run):
    """Catches a notebook full of <object at 0x…>."""
    facts = "best (20), 5,760 parameters, float32, 2 × cpu"
    assert repr(translator) == f"Translator({run}, {facts})"
    assert repr(restore(run)) == f"Run({run}, best (20), translation, 5,760 parameters)"
