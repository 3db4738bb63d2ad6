"""CTranslate2 finds what our search finds with the same weights; skipped where it is missing.

The weights are random but for the row of EOS, which is set so that translations of many lengths
win.
"""

import numpy as np
import pytest

from tests.helpers.control_ids import EOS
from tests.helpers.random_translators import (
    EXTRA,
    NEVER,
    WORDS,
    as_written,
    random_sentences,
    random_translator,
)
from transformer.interop.ctranslate2 import save_ctranslate2

ctranslate2 = pytest.importorskip("ctranslate2")

VOCABULARY = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
BEAM = 4


@pytest.fixture(scope="module")
def ours():
    return random_translator()


def load(translator, folder):
    """CTranslate2's translator with the weights of ours."""
    save_ctranslate2(as_written(translator), folder / "model")
    return ctranslate2.Translator(str(folder / "model"), compute_type="float32", intra_threads=1)


def search_with(theirs, sentences, **options):
    """[(ids, score) of each hypothesis] of each sentence; EOS is counted, as it is in ours."""
    found = theirs.translate_batch(
        [sentence.split() for sentence in sentences],
        **dict(return_scores=True, return_end_token=True, min_decoding_length=0) | options,
    )
    return [
        [([VOCABULARY.index(w) for w in words], score) for words, score in zip(*pair, strict=True)]
        for pair in ((result.hypotheses, result.scores) for result in found)
    ]


@pytest.mark.long
def test_greedy_equals_ctranslate2s(ours, tmp_path):
    """Catches a wrong step, cache, mask or end of the greedy search; theirs may end without EOS."""
    sentences = random_sentences()
    length = max(len(s.split()) for s in sentences) + 1 + EXTRA
    options = dict(beam_size=1, max_decoding_length=length)
    theirs = search_with(load(ours, tmp_path), sentences, **options)
    found = ours.translate(sentences, beam_size=1, alpha=0.0)
    for translation, sentence, [(ids, _)] in zip(found, sentences, theirs, strict=True):
        num_free = len(sentence.split()) + EXTRA  # at the next position ours must end
        assert translation.ids[:num_free] == ids[:num_free]


@pytest.mark.long
def test_live_beams_equal_ctranslate2s(tmp_path):
    """Catches a live hypothesis that is lost, or continued with another's cache, in 20 steps.

    Nothing ends before: CTranslate2 would stop at the W-th hypothesis that ends, if lengths count.
    """
    translator = random_translator(NEVER)
    sentences = [s for s in random_sentences(64) if len(s.split()) == 5]
    options = dict(beam_size=BEAM, max_decoding_length=20, num_hypotheses=BEAM, length_penalty=0)
    theirs = search_with(load(translator, tmp_path), sentences, **options)
    options = dict(nbest=BEAM, beam_size=BEAM, min_length=21, max_extra_length=21 - 6)
    found = translator.translate(sentences, **options)
    assert len(sentences) > 2
    for best, others in zip(found, theirs, strict=True):
        assert sorted(t.ids[:-1] for t in best) == sorted(ids for ids, _ in others)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_no_translation_of_ctranslate2s_is_better(ours, tmp_path, alpha):
    """Catches a wrong end or score: each of ours has the score that their model gives to it."""
    translate, sentences = load(ours, tmp_path), random_sentences()
    options = dict(beam_size=BEAM, length_penalty=alpha, max_decoding_length=60)
    theirs = search_with(translate, sentences, **options)
    found = ours.translate(sentences, beam_size=BEAM, alpha=alpha, length_penalty="power")
    sides = [s.split() for s in sentences], [ours.tokenizer.pieces(t.ids[:-1]) for t in found]
    log_probs = [sum(scored.log_probs) for scored in translate.score_batch(*sides)]
    np.testing.assert_allclose([t.log_prob for t in found], log_probs, rtol=1e-4)
    for translation, sentence, [(ids, score)] in zip(found, sentences, theirs, strict=True):
        if ids[-1] == EOS and len(ids) <= len(sentence.split()) + 1 + EXTRA:
            assert translation.score >= score - 1e-4
