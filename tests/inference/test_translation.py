"""translation.py: word alignments, and the candidate of least risk."""

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from tests.helpers.random_translators import WORDS, random_sentences, random_translator
from transformer.data.tokenizers.lists import CharacterTokenizer, PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference import translation
from transformer.inference.translation import Translation, word_numbers

PIECES = PiecesTokenizer([*WORDS, "a@@", "b"], "@@")


@pytest.mark.parametrize(
    "tokenizer",
    [
        SentencePieceTokenizer.train(["some words, and some others ü"] * 9, 290),
        CharacterTokenizer.train(["some words, and some others ü☃"]),
        PiecesTokenizer(["some", "wor@@", "ds", "and"], "@@"),
    ],
)
@pytest.mark.parametrize("text", ["some wor@@ ds", "", "and others, ☃☃ some", "s o"])
def test_tokens_belong_to_the_words_that_they_spell(tokenizer, text):
    """Catches a space that opens a word of its own, and bytes that are words."""
    ids = tokenizer.encode([text])[0]
    numbers = word_numbers(tokenizer, ids)
    words = tokenizer.decode(ids).split()
    assert len(numbers) == len(ids) and numbers[-1] == -1
    assert sorted({*numbers[:-1].tolist()} - {-1}) == list(range(len(words)))
    assert np.all(np.diff(numbers[:-1]) >= 0)
    for number, word in enumerate(words):
        own = [i for i, n in zip(ids, numbers, strict=True) if n == number]
        assert tokenizer.decode(own).strip() == word
    assert word_numbers(tokenizer, ids, 1).tolist() == (numbers - 1).tolist()


def test_a_word_has_the_links_of_all_its_tokens():
    """Catches links to the end of a sentence or a tag, source for target, and another layer."""
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.9], [0.5, 0.2, 0.3, 0.9], [0.1, 0.3, 0.2, 0.0], [1, 0, 0, 0]]
    )
    source, target = np.array([-1, 0, 1, -1]), np.array([0, 0, 1, -1])
    assert translation.align_words(weights, source, target) == [(0, 1), (1, 0)]
    weights[1, 1] = 0.4
    assert translation.pharaoh(translation.align_words(weights, source, target)) == "0-0 0-1 1-0"
    assert translation.align_words(weights[:, :1], source[:1], target) == []
    assert [translation.default_layer(num_layers) for num_layers in (1, 2, 3, 6)] == [0, 1, 1, 4]


@pytest.mark.long
def test_a_translator_aligns_by_the_last_layer_but_one():
    """Catches another layer, heads that are not averaged, and weights of the padding."""
    translator = random_translator(num_layers=3, tokenizers=(PIECES, PIECES))
    sources = [*random_sentences(5), "a@@ b w1", "", "w1"]
    given = Translation("w2 a b", 0.0, 0.0, PIECES.encode(["w2 a@@ b"])[0])
    targets = [*random_sentences(5)[::-1], given, "w3", Translation("", 0.0, 0.0)]
    with pytest.warns(UserWarning, match="more than 256 tokens get no alignment"):
        assert translator.align(["w1 " * 300], ["w2"]) == [[]]
    with pytest.raises(ValueError, match="1 sources cannot be paired with 2 targets"):
        translator.align(["w1"], ["w2", given])
    found = translator.align(sources, targets)
    for source, target, pairs in zip(sources[:6], targets, found, strict=False):
        weights = translator.attention(source, target).encoder_decoder.mean(1)
        texts = source, "w2 a@@ b" if target is given else target
        sides = [word_numbers(PIECES, PIECES.encode([text])[0]) for text in texts]
        assert pairs == translation.align_words(weights[1], *sides) != []
    assert found[6:] == [[], []]
    assert translator.align(sources, targets, 0)[:6] != found[:6]


@pytest.mark.parametrize("are_samples", [True, False])
def test_the_choice_has_the_largest_mean_utility(are_samples):
    """Catches a risk that leaves out repeated samples, or probabilities that are not heeded. Also a
    chrF of which spaces count, with another β, or of texts shorter than the longest n-gram."""
    known = ["a cat sat", "a cat sat down", "the dog", "", "x", "aaaaaaaa", "ein Hund  läuft ☃"]
    theirs = [[CHRF().sentence_score(a, [b]).score for b in known] for a in known]
    np.testing.assert_allclose(translation.pairwise_chrf(known), theirs, atol=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):
        texts = rng.choice(known, 7).tolist()
        log_probs = rng.normal(-9, 2, 7).tolist()
        weights = np.ones(7) if are_samples else np.exp(log_probs)
        utility = translation.pairwise_chrf(texts) @ weights
        rows = zip(texts, log_probs, log_probs, strict=True)
        candidates = [Translation(*row, [5]) for row in rows]
        found = translation.least_risk(candidates, are_samples=are_samples)
        assert utility[texts.index(found.text)] == pytest.approx(utility.max())


def test_a_translator_chooses_among_its_own_candidates():
    """Catches a choice that comes with the score or the ids of another candidate."""
    translator, sentences = random_translator(num_layers=1), random_sentences(6)
    best = translator.translate(sentences, nbest=4, beam_size=4)
    expected = [translation.least_risk(nbest, are_samples=False) for nbest in best]
    assert translator.translate(sentences, mbr=4, beam_size=4) == expected
    for wrong in (dict(mbr=8, beam_size=4), dict(mbr=2, nbest=2), dict(mbr=-1)):
        with pytest.raises(ValueError, match=r"(mbr|nbest) must be"):
            translator.translate(sentences, **wrong)
