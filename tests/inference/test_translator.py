"""Sentences to sentences: order, batches, lengths and neighbours must not matter.

Nearly every test searches greedily among sentences of at most 8 tokens with a model of one layer,
so that they share their compiled programs.
"""

import random
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.control_ids import EOS
from tests.helpers.random_runs import WORDS, make_config
from tests.helpers.tiny_models import random_params
from transformer.checkpoint.restore import Run
from transformer.data.rows import bucketing
from transformer.data.rows.batch import Batch
from transformer.data.tokenizers.lists import PieceListTokenizer, PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference import translator as translator_module
from transformer.inference.translation import Translation, best_translations
from transformer.inference.translator import Translator
from transformer.search.decoding import Hypotheses
from transformer.special_tokens import NUM_SPECIAL, SPECIAL_NAMES

BEAM = dict(beam_size=4, nbest=4)
SOURCES, TARGETS = ["w1 w2 w3", "w4"], ["w5", "w6 w7"]


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch):
    """Buckets of 8, 16, 32, …: a small second one costs fewer programs."""
    monkeypatch.setattr(bucketing, "SHORTEST_BUCKET", 8)


def make_translator(num_devices=1, params=None, **model):
    """A model of random weights: no two tokens tie, and every path of the search is used."""
    tokenizer = PiecesTokenizer(WORDS, "@@")
    devices = jax.local_devices()[:num_devices]
    config = make_config(**model)
    config.decoding.beam_size = 1
    made = Translator(Run.in_memory(config, (tokenizer, tokenizer), params=params), devices)
    if params is None:
        made.params = random_params(made.model.init, Batch.zeros(1, 1), deterministic=True)
    return made


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.fixture(scope="module")
def half(translator):
    return make_translator(params=translator.params, dtype="bfloat16")


def sentences(count, seed=0, longest=7):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)]


def assert_same(ours, theirs):
    assert [t.text for t in ours] == [t.text for t in theirs]
    np.testing.assert_allclose([t.score for t in ours], [t.score for t in theirs], atol=1e-5)


def test_alone_equals_in_a_batch_in_any_order(translator):
    """Catches a neighbour's padding, the row order after sorting by length, and results that move
    up where a sentence is left out of the search, as it is empty."""
    lines = ["", *sentences(3), "   ", sentences(4)[3], " ".join(WORDS[:12])]  # in another bucket
    together = translator.translate(lines)
    assert [bool(t.text or t.ids) for t in together] == [bool(line.strip()) for line in lines]
    assert translator.translate([]) == []
    assert_same([translator.translate([line])[0] for line in lines], together)
    order = random.Random(1).sample(range(7), 7)
    assert_same(translator.translate([lines[i] for i in order]), [together[i] for i in order])


def test_the_scorer_agrees_with_the_search(translator, monkeypatch):
    """Catches a cache that computes otherwise than one uncached pass over the translation."""
    lines = sentences(4, seed=3)
    found = [best[-1] for best in translator.translate(lines, **BEAM)]
    scored = translator.score(lines, [t.text for t in found])
    for ours, theirs in zip(found, scored, strict=True):
        assert ours.ids == theirs.ids
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
    monkeypatch.setattr(translator.config.decoding, "length_penalty", "power")
    monkeypatch.setattr(translator.config.decoding, "alpha", 1.0)
    again = translator.score(lines, [t.text for t in found])
    by_length = [t.log_prob / len(t.ids) for t in scored]
    assert [t.score for t in again] == pytest.approx(by_length, rel=1e-5)


def test_a_pair_too_long_to_be_scored_gets_nan_and_its_neighbours_a_score(translator):
    """Catches a program for the length of every giant, and scores that slip to other pairs."""
    long = " ".join(["w1"] * 400)
    with pytest.warns(UserWarning, match="more than 256 tokens get nan"):
        scored = translator.score(["w1", long, "w2", "w3"], ["w4", "w5", long, "w6 w7"])
    assert [np.isnan(t.score) for t in scored] == [False, True, True, False]
    assert [t.text for t in scored] == ["w4", "w5", long, "w6 w7"]
    again = translator.score(["w3", "w1"], ["w6 w7", "w2"])
    assert scored[3].score == pytest.approx(again[0].score, abs=1e-5)


def test_hypotheses_in_any_order_come_back_best_first():
    """Catches a first draw that is taken for the best, and an entry that was not filled."""
    ids = np.array([[NUM_SPECIAL, EOS, 0], [EOS, 0, 0], [NUM_SPECIAL + 1, EOS, 0]])
    found = Hypotheses(ids, np.array([-4.0, 0.0, -2.0]), np.array([-2.0, -np.inf, -1.0]))
    best = best_translations(found, 3, PiecesTokenizer(WORDS, "@@"))
    assert [(t.text, t.score, t.log_prob) for t in best] == [(WORDS[1], -1, -2), (WORDS[0], -2, -4)]
    assert [t.ids for t in best] == [[NUM_SPECIAL + 1, EOS], [NUM_SPECIAL, EOS]]


def test_sources_are_cut_at_the_largest_bucket(translator, monkeypatch):
    """Catches sentences cut at a short training row, learned positions that do not exist, a program
    for every giant, and a truncation that nobody is told of."""
    config, before = translator.config, translator.num_truncated
    with monkeypatch.context() as patch:
        patch.setattr(translator, "largest_bucket", lambda: 8)
        (found,) = translator.translate([" ".join(["w1"] * 500)])
    assert translator.num_truncated == before + 1
    assert len(found.ids) <= 8 + 4
    for row_length, positions, most, expected in (
        (64, "sinusoidal", 16, 256),
        (512, "sinusoidal", 16, 512),
        (512, "learned", 100, 100),
    ):
        monkeypatch.setattr(config.data, "row_length", row_length)
        monkeypatch.setattr(config.model, "positions", positions)
        monkeypatch.setattr(config.model, "max_positions", most)
        assert translator.largest_bucket() == expected


def test_programs_do_not_depend_on_the_sentences(translator):
    """Catches shapes made of the sentences' own lengths or number: every call would compile."""
    for count in (1, 4):
        translator.translate(sentences(count))
    before = translator.num_programs()
    for seed in range(6):
        translator.translate(sentences(2 + 3 * seed, seed))
    assert translator.num_programs() == before
    assert 0 < before < translator.max_num_programs()


def test_an_iterator_gives_an_iterator_that_reads_no_further_than_a_window(translator, monkeypatch):
    """Catches a corpus that is read whole before its first translation is returned."""
    monkeypatch.setattr(translator_module, "WINDOW", 4)
    lines, read = sentences(10, seed=8), []
    found = translator.translate(read.append(line) or line for line in lines)
    first = next(found)
    assert len(read) <= 5
    assert_same([first, *found], translator.translate(lines))


def test_prefixes_begin_the_translations(translator):
    """Catches a prefix given to a neighbour after sorting by length, and one that ends with EOS."""
    lines, prefixes = sentences(6, seed=9), ["w3 w4", "", "w5", "", "", "w6 w7 w8"]
    found = translator.translate(lines, prefixes=prefixes)
    assert all(t.text.startswith(p) for t, p in zip(found, prefixes, strict=True))
    free = translator.translate(lines)
    assert_same([found[i] for i in (1, 3, 4)], [free[i] for i in (1, 3, 4)])
    scored = translator.score(lines, [t.text for t in found])
    np.testing.assert_allclose([t.score for t in found], [t.score for t in scored], atol=1e-5)


def test_a_target_tokenizer_with_a_language_forces_it(translator):
    """Catches a language lost without a prefix, with one, in n-best lists or in what is scored."""
    letters = SentencePieceTokenizer.train(["abc"] * 9, NUM_SPECIAL + 256 + 4).to_bytes()
    other = [f"p{i}" for i in range(len(WORDS) - 5)]
    pieces = [*SPECIAL_NAMES, *"▁abc", *other, "__de__"]
    target = PieceListTokenizer(letters, pieces, ["__de__"])
    tokenizers = translator.source_tokenizer, target
    run = Run.in_memory(translator.config, tokenizers, params=translator.params)
    multilingual = Translator(run)
    lines, language = sentences(3, seed=13), len(pieces) - 1
    prefixes = ["", "ab", "c"]
    starts = [ids[:-1] for ids in target.encode(prefixes)]
    found = multilingual.translate(lines, prefixes=prefixes, **BEAM)
    for start, best in zip(starts, found, strict=True):
        assert start[0] == language and len(best) == 4
        assert all(t.ids[: len(start)] == start and "__" not in t.text for t in best)
    assert multilingual.score(lines[:1], ["ab"])[0].ids == [*starts[1], EOS]


def test_more_devices_change_nothing(translator, monkeypatch):
    """Catches rows dealt to the wrong device, and a device that is given no sentence."""
    monkeypatch.setattr(bucketing, "SMALL_BATCHES", (4, 4))
    lines = sentences(11, seed=10)
    several = make_translator(2, translator.params)
    assert several.replicas.size == 2
    for count in (1, 3, 11):
        assert_same(several.translate(lines[:count]), translator.translate(lines[:count]))
    targets = [t.text for t in several.translate(lines)]
    assert_same(several.score(lines, targets), translator.score(lines, targets))


@pytest.mark.long
def test_samples_do_not_depend_on_neighbours(half):
    """Catches draws by the row of a batch, and a seed without effect."""
    lines, options = sentences(4, seed=6), dict(sample=True, temperature=2.0)
    together = half.translate(lines, **options, seed=3)
    assert_same(half.translate(lines, **options, seed=3), together)
    others = [*sentences(3, seed=7), lines[0]]
    assert_same(half.translate(others, **options, seed=3)[-1:], together[:1])
    assert [t.text for t in half.translate(lines, **options, seed=4)] != [t.text for t in together]


def test_values_per_token_are_those_of_the_model(translator):
    """Catches padding that changes a state, a row of another text, a shifted target, and the
    log-probability of another token, without EOS, or of padding."""
    encoded, logits = translator.encode(SOURCES), translator.logits(SOURCES, TARGETS)
    assert encoded.values.shape == (2, 4, 16) and logits.values.shape == (2, 3, 24)
    np.testing.assert_array_equal(encoded.mask, [[1, 1, 1, 1], [1, 1, 0, 0]])
    assert encoded.pieces == [["w1", "w2", "w3", "</s>"], ["w4", "</s>"]]
    assert logits.pieces == [["w5", "</s>"], ["w6", "w7", "</s>"]]

    @jax.jit
    def by_hand(params, source, target):  # alone and without padding
        apply = partial(translator.model.apply, {"params": params}, deterministic=True)
        positions, segments = jnp.arange(source.shape[1]), jnp.ones_like(source)
        return apply(source, positions, segments, method="encode"), apply(source, target)

    pair = [np.array(translator.tokenizer.encode([texts[1]])) for texts in (SOURCES, TARGETS)]
    states, scores = by_hand(translator.params, *pair)
    np.testing.assert_allclose(encoded.values[1, :2], states[0], atol=1e-5)
    np.testing.assert_allclose(logits.values[1], scores[0], atol=1e-5)
    found = translator.log_probs(SOURCES, TARGETS)
    of_targets = [t.log_prob for t in translator.score(SOURCES, TARGETS)]
    np.testing.assert_allclose(found.values.sum(1), of_targets, rtol=1e-6)
    assert not found.values[~found.mask].any() and (found.values[found.mask] < 0).all()
    of_all, ids = np.array(jax.nn.log_softmax(scores[0])), pair[1][0]
    np.testing.assert_allclose(found.values[1], of_all[np.arange(len(ids)), ids], atol=1e-5)


def test_attention_rows_are_distributions_over_the_source(translator, monkeypatch):
    """Catches weights of padding, of another layer's, in another order of axes, and a translation
    that comes with those of another sentence."""
    deep = make_translator(num_layers=2)
    ids = deep.tokenizer.encode(["w4 w5"])[0]
    found = deep.attention("w1 w2 w3", Translation("", 0.0, 0.0, ids))
    assert found.source_pieces == ["w1", "w2", "w3", "</s>"]
    assert found.target_pieces == ["w4", "w5", "</s>"]
    shapes = {"encoder": (4, 4), "decoder": (3, 3), "encoder_decoder": (3, 4)}
    for name, shape in shapes.items():
        weights = getattr(found, name)
        assert weights.shape == (2, 2, *shape)  # [layers, N, …]
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert not np.triu(found.decoder, 1).any() and np.triu(found.encoder, 1).any()
    again = deep.attention("w1 w2 w3", "w4 w5")
    np.testing.assert_array_equal(again.encoder_decoder, found.encoder_decoder)
    monkeypatch.setattr(translator, "_weights", lambda s, t: [[list(s), list(t)]])
    lines = ["w1 w2 w3", "w5", "w4 w6"]
    found = translator.translate(lines, attention=True)
    ids = translator.source_tokenizer.encode(lines)
    assert [t.attention for t in found] == [[s, t.ids] for s, t in zip(ids, found, strict=True)]
    assert translator.translate(lines)[0].attention is None


def test_wrong_options_and_texts_are_refused_before_any_compile(translator):
    """Catches an option that is ignored, or refused after minutes of compiling; a text that is cut
    in silence, and pairs that are dropped."""
    before = translator.num_programs()
    for options, said in (
        ({"beam": 3, "nbest": 2}, "no option 'beam'; it has beam_size, .*, prefixes, attention."),
        ({"length_penalty": "wu"}, "length_penalty must be gnmt or power"),
        ({"prefixes": ["", ""]}, "Every sentence needs a prefix"),
        ({"prefixes": ["w1 " * 900]}, "A prefix has 900 pieces"),
        ({"beam_size": 0}, "beam_size must be at least 1"),
        ({"beam_size": 4, "nbest": 9}, "nbest must be at most beam_size, 4, not 9"),
        ({"beam_size": 1, "early_stopping": True}, "early_stopping must be False without a beam"),
        ({"sample": True, "temperature": -1.0}, "temperature must be at least 0"),
        ({"sample": True, "top_p": 1.5}, "top_p"),
    ):
        with pytest.raises(ValueError, match=said):
            translator.translate(["w1"], **options)
    for wrong in (None, b"w1"):
        with pytest.raises(ValueError, match=rf"type str; number 1 is {wrong!r}"):
            translator.translate(["w1", wrong])
        with pytest.raises(ValueError, match=rf"type str; number 1 is {wrong!r}"):
            list(translator.translate(iter(["w1", wrong])))
        with pytest.raises(ValueError, match=rf"targets .* number 0 is {wrong!r}"):
            translator.score(["w1"], [wrong])
    for function, arguments, said in (
        (translator.translate, ["w1 w2"], "translate takes a list of sentences"),
        (translator.encode, ["w1"], "encode takes a list of sentences"),
        (translator.tokenizer.encode, ["w1 w2"], "encode takes a list of sentences"),
        (
            translator.encode,
            [["w1", "w1 " * 300]],
            "Text 1 has 301 tokens, and the model takes 256",
        ),
        (translator.score, [["w1", "w2"], ["w1"]], "2 sources cannot be paired with 1 targets"),
        (translator.log_probs, [["w1"], TARGETS], "1 sources cannot be paired with 2 targets"),
    ):
        with pytest.raises(ValueError, match=said):
            function(*arguments)
    assert translator.encode([]).values.shape[0] == 0
    assert translator.num_programs() == before


def test_bfloat16_translates(half):
    """Catches infinities of a narrower format."""
    found = half.translate(sentences(4), sample=True, temperature=2.0)
    assert np.isfinite([t.score for t in found]).all()


@pytest.mark.long
def test_sources_get_the_tag_of_the_first_corpus_unless_they_have_one(translator, monkeypatch):
    """Catches a sentence without tag, an empty one that a tag has translated, and a sentence that
    is too long with its tag alone and does not count as cut."""
    config = make_config()
    config.data.corpus, config.decoding.beam_size = "a#w0,b@2#w1", 1
    run = Run.in_memory(config, translator.run.tokenizers, params=translator.params)
    tagged = Translator(run, jax.local_devices()[:1])
    lines = ["w5 w6", "w0 w5 w6", "w1 w5 w6", "", "w1"]
    expected = translator.translate(["w0 w5 w6", "w0 w5 w6", "w1 w5 w6", "", ""])
    assert_same(tagged.translate(lines), expected)
    scored = [which.score(lines[:3], ["w7"] * 3) for which in (tagged, translator)]
    assert_same(scored[0][1:], scored[1][1:])
    assert_same(scored[0][:1], scored[1][1:2])
    assert len(tagged.attention("w5 w6", "w7").source_pieces) == 4
    monkeypatch.setattr(Translator, "largest_bucket", lambda translator: 3)
    assert [t.is_cut for t in tagged.translate(["w5", "w5 w6", ""])] == [False, True, False]
