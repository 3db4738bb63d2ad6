"""The models of a single Stack: who sees whom, and that neighbours change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, sentence, tiny_config
from transformer.data.batch import Batch
from transformer.data.images import fill_images
from transformer.data.lm_batches import MASK, WindowBatch
from transformer.model.decoder_only import CausalLM
from transformer.model.encoder_only import ImageClassifier, MaskedLM, TextClassifier
from transformer.search.decoding import FREE, HypothesisRules, Limits, search_to_end
from transformer.search.sampling import Sampling
from transformer.special_tokens import EOS

RNG = np.random.default_rng(0)


def packed(rows, length, places):
    """rows: lists of sentences of ids -> a `Batch` whose targets are one class (0) a sentence."""
    source = np.zeros((3, len(rows), length), np.int32)
    target = np.zeros((4, len(rows), places), np.int32)
    for row, sentences in enumerate(rows):
        start = 0
        for segment, ids in enumerate(sentences, start=1):
            where = slice(start, start + len(ids))
            source[:, row, where] = ids, [segment] * len(ids), range(len(ids))
            target[2, row, segment - 1] = segment
            start += len(ids)
    return Batch(*source, target[3], target[0], *target[2:0:-1])


def classify(batch, **changes):
    model = TextClassifier(tiny_config(**changes), VOCAB_SIZE, num_classes=3)
    params = random_params(model.init, batch, deterministic=True)
    return np.asarray(model.apply({"params": params}, batch, deterministic=True))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_class_does_not_depend_on_neighbours_or_padding(norm):
    """Catches a mean over padding or over the neighbours of a packed row, and wrong positions."""
    sentences = [sentence(RNG, n) for n in (3, 5, 2, 4)]
    together = classify(packed([sentences[:3], sentences[3:]], 12, 3), norm=norm)
    alone = [classify(packed([[s]], len(s) + 3, 1), norm=norm)[0, 0] for s in sentences]
    found = np.concatenate([together[0], together[1, :1]])
    np.testing.assert_allclose(found, alone, atol=1e-5)
    assert abs(found[0] - found[1]).max() > 1e-3


def test_a_class_depends_on_every_piece():
    """Catches pooling that looks at one place only."""
    ids = sentence(RNG, 5)
    before = classify(packed([[ids]], 8, 1))
    for place in range(len(ids)):
        other = list(ids)
        other[place] = ids[place] % (VOCAB_SIZE - 1) + 1
        assert abs(classify(packed([[other]], 8, 1)) - before).max() > 1e-4


def window(length=6, rows=2):
    ids = RNG.integers(4, VOCAB_SIZE, (rows, length + 1)).astype(np.int32)
    return WindowBatch(ids[:, :-1], ids[:, 1:])


def test_a_causal_model_has_no_gradient_from_the_future():
    """Catches a missing or shifted causal mask."""
    model, batch = CausalLM(tiny_config(), VOCAB_SIZE), window()
    params = random_params(model.init, batch, deterministic=True)
    bound = model.bind({"params": params})

    def scores(x):
        from transformer.model.masks import causal_mask

        return bound.decoder(x, mask=causal_mask(6), deterministic=True)[0].sum(-1)

    x = jnp.asarray(RNG.normal(size=(2, 6, 16)), jnp.float32)
    gradient = np.abs(jax.jacobian(scores)(x)[:, 0]).sum(-1)  # [place of output, of input]
    assert (gradient[np.triu_indices(6, 1)] == 0).all()
    assert (gradient[np.tril_indices(6)] > 0).all()

    changed = batch.inputs.copy()
    changed[:, 4] = changed[:, 4] % (VOCAB_SIZE - 1) + 1
    before, after = (
        model.apply({"params": params}, batch._replace(inputs=ids), deterministic=True)
        for ids in (batch.inputs, changed)
    )
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert abs(before[:, 4:] - after[:, 4:]).max() > 1e-3


@pytest.mark.parametrize("norm, positions", [("pre", "learned"), ("post", "sinusoidal")])
def test_a_search_gives_the_scores_of_the_whole_pass(norm, positions):
    """Catches a cache, a position or a start of the search unlike those of training."""
    model = CausalLM(tiny_config(norm=norm, positions=positions), VOCAB_SIZE)
    batch = window(length=7, rows=3)
    inputs = np.concatenate([np.full((3, 1), EOS), batch.targets[:, :-1]], 1).astype(np.int32)
    batch = WindowBatch(inputs, batch.targets)
    params = random_params(model.init, batch, deterministic=True)

    def step_fn(tokens, cache, position, ancestors):
        inputs = tokens, cache, position, ancestors, ()
        return model.apply({"params": params}, *inputs, method="decode_step")

    cache = model.apply({"params": params}, 3, 1, 7, method="init_cache")
    limits = Limits(np.full(3, 8), batch.targets)
    found = search_to_end(
        Sampling(HypothesisRules(EOS, FREE, "power", 0.0), temperature=0.0), step_fn, limits, cache
    )
    np.testing.assert_array_equal(found.ids[:, 0], batch.targets)
    logits = model.apply({"params": params}, batch, deterministic=True)
    logits = np.asarray(logits).copy()
    logits[..., [0, 1, 3]] = -np.inf  # control ids are never written
    log_probs = jax.nn.log_softmax(logits)
    gold = np.take_along_axis(np.asarray(log_probs), batch.targets[..., None], -1).sum((1, 2))
    np.testing.assert_allclose(found.log_probs[:, 0], gold, rtol=1e-5)


def test_a_masked_model_looks_both_ways_and_at_its_own_sentence_only():
    """Catches a causal mask, and a leak between the sentences of a row."""
    model = MaskedLM(tiny_config(), VOCAB_SIZE)
    first, second = sentence(RNG, 4), sentence(RNG, 5)
    batch = packed([[first, second]], 10, 2)
    params = random_params(model.init, batch, deterministic=True)

    def logits(inputs):
        return np.asarray(
            model.apply({"params": params}, batch._replace(inputs=inputs), deterministic=True)
        )

    hidden = batch.inputs.copy()
    hidden[0, 6] = MASK
    change = abs(logits(hidden) - logits(batch.inputs)).max(-1)[0]
    assert (change[:4] == 0).all() and (change[4:9] > 0).all()


def test_an_image_knows_where_its_patches_are():
    """Catches positions that are left out: the mean alone would not notice a shuffled image."""
    model = ImageClassifier(tiny_config(), 3)
    patches = RNG.normal(size=(2, 4, 6)).astype(np.float32)
    batch = fill_images(patches, np.zeros(2, np.int32), 3)
    params = random_params(model.init, batch, deterministic=True)

    def logits(batch):
        return np.asarray(model.apply({"params": params}, batch, deterministic=True))

    found = logits(batch)
    assert found.shape == (3, 1, 3)
    alone = logits(fill_images(patches[1:], np.zeros(1, np.int32), 1))
    np.testing.assert_allclose(found[1:2], alone, atol=1e-5)
    turned = logits(fill_images(patches[:, ::-1], np.zeros(2, np.int32), 3))
    assert abs(turned[:2] - found[:2]).max() > 1e-3


def test_the_encoder_of_a_masked_model_fits_a_classifier():
    """Catches names or shapes that would make a warm start from pre-training take nothing."""
    batch = packed([[sentence(RNG, 4)]], 6, 1)
    shapes = [
        jax.eval_shape(lambda m=model: m.init(jax.random.key(0), batch, deterministic=True))
        for model in (
            MaskedLM(tiny_config(), VOCAB_SIZE),
            TextClassifier(tiny_config(), VOCAB_SIZE, num_classes=3),
        )
    ]
    masked, classifier = (
        {path: x.shape for path, x in jax.tree_util.tree_leaves_with_path(tree["params"])}
        for tree in shapes
    )
    assert set(masked) < set(classifier)
    assert all(classifier[path] == shape for path, shape in masked.items())
    assert len(set(classifier) - set(masked)) == 2  # the weights and bias of the classes
