"""Sentences to sentences: order, batches, lengths and neighbours must not matter."""

import random

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.inference import translator as translator_module
from transformer.inference.translator import Translator
from transformer.special_tokens import EOS

WORDS = [f"w{i}" for i in range(20)]


@pytest.fixture(scope="module")
def translator():
    """A model of random weights: no two pieces tie, and every path of the search is used."""
    config = Config()
    config.model = tiny_config()
    config.data.row_length = 64
    config.decoding.batch_size = 4
    config.decoding.max_extra_length = 6
    tokenizer = PiecesTokenizer(WORDS, "@@")
    made = Translator(config, None, (tokenizer, tokenizer), jax.local_devices()[:1])
    made.params = random_params(made.model.init, Batch.zeros(1, 1), deterministic=True)
    return made


def sentences(count, seed=0):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(count)]


def same(ours, theirs):
    assert [t.text for t in ours] == [t.text for t in theirs]
    np.testing.assert_allclose([t.score for t in ours], [t.score for t in theirs], atol=1e-5)


def test_alone_equals_in_a_batch_in_any_order(translator):
    """A neighbour's padding, or the row order after sorting by length, would show here."""
    lines = sentences(9)
    together = translator.translate(lines)
    same([translator.translate([line])[0] for line in lines], together)
    order = random.Random(1).sample(range(9), 9)
    same(translator.translate([lines[i] for i in order]), [together[i] for i in order])


def test_another_batch_size_changes_nothing(translator, monkeypatch):
    lines = sentences(7, seed=2)
    together = translator.translate(lines)
    monkeypatch.setattr(translator.config.decoding, "batch_size", 7)
    same(translator.translate(lines), together)


def test_the_scorer_agrees_with_the_search(translator):
    """Cached, step by step, against one uncached pass over the finished translation."""
    lines = sentences(6, seed=3)
    found = translator.translate(lines)
    scored = translator.score(lines, [t.text for t in found])
    for ours, theirs in zip(found, scored, strict=True):
        assert ours.ids == theirs.ids
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)


def test_a_pair_too_long_to_be_scored_gets_nan_and_its_neighbours_a_score(translator):
    """Catches a program for the length of every giant, and scores that slip to other pairs."""
    long = " ".join(["w1"] * 400)
    with pytest.warns(UserWarning, match="more than 256 pieces get nan"):
        scored = translator.score(["w1", long, "w2", "w3"], ["w4", "w5", long, "w6 w7"])
    assert [np.isnan(t.score) for t in scored] == [False, True, True, False]
    assert [t.text for t in scored] == ["w4", "w5", long, "w6 w7"]
    assert scored[3].score == pytest.approx(translator.score(["w3"], ["w6 w7"])[0].score, abs=1e-5)


def test_beam_1_is_greedy_and_wider_beams_find_no_worse(translator):
    lines = sentences(5, seed=4)
    greedy = translator.translate(lines, beam_size=1, alpha=0.0)
    wide = translator.translate(lines, beam_size=8, alpha=0.0)
    drawn = translator.translate(lines, sample=True, top_k=1, alpha=0.0)
    same(drawn, greedy)
    assert np.mean([t.score for t in wide]) >= np.mean([t.score for t in greedy]) - 1e-5


def test_an_n_best_list_is_sorted_and_without_duplicates(translator):
    for best in translator.translate(sentences(4), nbest=4, beam_size=4):
        assert [t.score for t in best] == sorted((t.score for t in best), reverse=True)
        assert len({tuple(t.ids) for t in best}) == len(best) == 4


def test_empty_stays_empty_and_in_its_place(translator):
    found = translator.translate(["", "w1 w2", "   ", "w3"])
    assert [bool(t.text) or bool(t.ids) for t in found] == [False, True, False, True]
    assert translator.translate([]) == []


def test_a_sentence_beyond_the_largest_bucket_is_cut_and_counted(translator):
    before = translator.num_truncated
    (found,) = translator.translate([" ".join(["w1"] * 5000)])
    assert translator.num_truncated == before + 1
    assert found.num_pieces <= translator.largest_bucket() + 6


def test_a_translation_is_at_most_source_plus_extra_pieces(translator):
    """With the pieces of the whole batch as the limit, a short sentence could run on."""
    lines = ["w1", " ".join(WORDS[:15])]
    for line, found in zip(lines, translator.translate(lines), strict=True):
        assert found.num_pieces <= len(line.split()) + 1 + 6
        assert found.ids[-1] == EOS


def test_as_many_compiles_as_shapes(translator):
    """A shape made of the sentences' own lengths would compile for every call."""
    before = translator.num_programs()
    for seed in range(4):
        translator.translate(sentences(10, seed), alpha=0.9)
    compiled = translator.num_programs() - before
    assert 0 < compiled <= translator.max_num_programs(alpha=0.9)
    for seed in range(4, 8):
        translator.translate(sentences(40, seed), alpha=0.9)
    assert translator.num_programs() - before <= compiled + 4  # a size of batch that is new
    all_lengths = [" ".join(["w1"] * n) for n in range(1, 300, 7)]
    translator.translate(all_lengths, alpha=0.9)
    assert translator.num_programs() - before <= translator.max_num_programs(alpha=0.9)


def test_an_iterator_gives_an_iterator_that_reads_no_further_than_a_window(translator, monkeypatch):
    """Catches a corpus that is read whole before its first translation is out."""
    monkeypatch.setattr(translator_module, "WINDOW", 4)
    lines, read = sentences(10, seed=8), []
    found = translator.translate(read.append(line) or line for line in lines)
    first = next(found)
    assert len(read) <= 5
    same([first, *found], translator.translate(lines))


def test_prefixes_are_how_translations_begin(translator):
    """Catches a prefix given to a neighbour after sorting by length, and one that ends with EOS."""
    lines, prefixes = sentences(6, seed=9), ["w3 w4", "", "w5", "", "", "w6 w7 w8"]
    found = translator.translate(lines, prefixes=prefixes)
    assert all(t.text.startswith(p) for t, p in zip(found, prefixes, strict=True))
    free = translator.translate(lines)
    same([found[i] for i in (1, 3, 4)], [free[i] for i in (1, 3, 4)])
    scored = translator.score(lines, [t.text for t in found])
    np.testing.assert_allclose([t.score for t in found], [t.score for t in scored], atol=1e-5)


def test_more_devices_change_nothing(translator, monkeypatch):
    """Catches rows dealt to the wrong device, and a device that is given no sentence."""
    if len(jax.local_devices()) == 1:
        pytest.skip("needs several devices")
    lines = sentences(21, seed=10)
    several = Translator(
        translator.config, translator.params, (translator.tokenizer,) * 2, jax.local_devices()
    )
    assert several.replicas.size == len(jax.local_devices())
    for count in (1, 3, 21):
        same(several.translate(lines[:count]), translator.translate(lines[:count]))
    targets = [t.text for t in several.translate(lines)]
    same(several.score(lines, targets), translator.score(lines, targets))


def test_samples_do_not_depend_on_neighbours(translator):
    lines = sentences(5, seed=6)
    together = translator.translate(lines, sample=True, temperature=2.0, seed=3)
    again = translator.translate(lines, sample=True, temperature=2.0, seed=3)
    other = translator.translate(lines, sample=True, temperature=2.0, seed=4)
    same(together, again)
    same(translator.translate(lines[:1], sample=True, temperature=2.0, seed=3), together[:1])
    assert [t.text for t in other] != [t.text for t in together]


def test_attention_rows_are_distributions_over_the_source(translator):
    found = translator.translate(["w1 w2 w3"])[0]
    source, target, weights = translator.attention("w1 w2 w3", found)
    assert weights.shape == (2, 2, len(target), len(source))
    (asked,) = translator.translate(["w1 w2 w3"], attention=True)
    np.testing.assert_array_equal(asked.attention, weights)
    assert source == ["w1", "w2", "w3", "</s>"]
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beam": 3}, "beam"),
        ({"length_penalty": "wu"}, "length_penalty must be gnmt or power"),
        ({"prefixes": ["", ""]}, "Every sentence needs a prefix"),
        ({"prefixes": ["w1 " * 900]}, "A prefix has 900 pieces"),
        ({"beam_size": 0}, "beam_size must be at least 1"),
        ({"nbest": 9}, "nbest must be at most beam_size"),
        ({"beam_size": 1, "early_stopping": True}, "early_stopping must be False without a beam"),
        ({"sample": True, "temperature": -1.0}, "temperature must be at least 0"),
        ({"sample": True, "top_p": 1.5}, "top_p"),
    ],
)
def test_wrong_options_are_refused_before_any_compile(translator, options, said):
    with pytest.raises(ValueError, match=said):
        translator.translate(["w1"], **options)
    with pytest.raises(ValueError, match="a list of sentences"):
        translator.translate("w1 w2")
    with pytest.raises(ValueError, match="2 sources"):
        translator.score(["w1", "w2"], ["w1"])


def test_bfloat16_translates(translator):
    config = Config()
    config.model = tiny_config(dtype="bfloat16")
    half = Translator(config, translator.params, (translator.tokenizer,) * 2)
    (found,) = half.translate(["w1 w2"])
    assert np.isfinite(found.score)
    matrices = [a for a in jax.tree.leaves(half.params) if a.ndim > 1]
    assert {a.dtype for a in matrices} == {jax.numpy.bfloat16.dtype}
