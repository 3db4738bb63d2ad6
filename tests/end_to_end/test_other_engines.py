"""Hugging Face's Marian and CTranslate2 find what our search finds with the same weights.

Skipped where they are missing. The weights are random but for the row of EOS, which is set so that
translations of many lengths win.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers.random_translators import (
    EXTRA,
    LIKELY,
    NEVER,
    WORDS,
    as_written,
    random_sentences,
    random_translator,
)
from transformer.interop.ctranslate2.write import save_ctranslate2
from transformer.interop.huggingface.write_marian import order_ids, write_model
from transformer.special_tokens import EOS, PAD

VOCABULARY = ["<pad>", "<s>", "</s>", "<unk>", *WORDS]
BEAM = 4


@pytest.fixture(scope="module")
def ours():
    return random_translator(LIKELY, norm_epsilon=1e-5)  # MarianMT has no other


# ---- Hugging Face's Marian


@pytest.fixture(scope="module")
def marian(ours, tmp_path_factory):
    """Marian with our weights: generate(sentences, **options), and ids(rows) in our terms."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    written, folder = as_written(ours), tmp_path_factory.mktemp("marian") / "model"
    order = order_ids(written, "token")
    write_model(written, order, folder, "token")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()
    model.generation_config.forced_eos_token_id = None  # its log-probability would not count
    theirs = np.argsort(order.target)
    end, pad = order.theirs(EOS), order.theirs(PAD)

    def generate(sentences, width, **options):
        ids = [torch.tensor(theirs[ids]) for ids in ours.tokenizer.encode(sentences)]
        inputs = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=pad)
        max_lengths = torch.tensor([len(i) + EXTRA for i in ids]).repeat_interleave(width)

        def end_in_time(input_ids, scores):
            """Ours allows only EOS at the last position, and counts its log-probability."""
            is_last = (input_ids.shape[1] >= max_lengths)[:, None]
            return scores.masked_fill(is_last & (torch.arange(scores.shape[1]) != end), -np.inf)

        return model.generate(
            inputs,
            attention_mask=(inputs != pad).long(),
            num_beams=width,
            do_sample=False,
            max_new_tokens=int(max_lengths.max()),
            logits_processor=[end_in_time],
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
            **options,
        )

    def ids(row):
        """Our ids of a row of theirs, from after BOS to EOS."""
        row = np.array(order.target)[row][1:].tolist()
        return row[: row.index(EOS) + 1]

    return SimpleNamespace(model=model, generate=generate, ids=ids, theirs=theirs, torch=torch)


def test_greedy_equals_marians(ours, marian):
    """Catches a wrong step, cache, mask or end of the greedy search."""
    sentences = random_sentences()
    theirs = marian.generate(sentences, 1)
    log_probs = marian.torch.stack(theirs.logits, 1).log_softmax(-1)
    found = ours.translate(sentences, beam_size=1, alpha=0.0)
    for translation, row, scores in zip(found, theirs.sequences, log_probs, strict=True):
        ids = marian.ids(row)
        assert translation.ids == ids
        score = scores[range(len(ids)), marian.theirs[ids]].sum().item()
        assert translation.log_prob == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("alpha, min_length", [(0.0, 5), (0.6, 5), (1.0, 0)])
def test_beams_equal_marians(ours, marian, monkeypatch, alpha, min_length):
    """Catches a lost or misplaced hypothesis, a wrong score, penalty or order, an early end.

    Its length penalty is our "power": both divide by n^α, and n counts EOS but not BOS. "never" is
    its exact end of the search. Of the 2W best continuations it lets only those end that are among
    the first W, a heuristic that can lose the best translation: as it comes, it never finds a
    better one than ours; where all may end, the W best of both are the same.
    """
    sentences, rule = random_sentences(), marian.model._update_finished_beams

    def let_all_end(*, top_num_beam_mask, **kwargs):
        return rule(top_num_beam_mask=top_num_beam_mask | True, **kwargs)

    def search():
        options = dict(num_return_sequences=BEAM, length_penalty=alpha, early_stopping="never")
        min_new = max(0, min_length - 1)  # it does not count EOS
        found = marian.generate(sentences, BEAM, min_new_tokens=min_new, **options)
        shape = len(sentences), BEAM
        return found.sequences.unflatten(0, shape), found.sequences_scores.view(shape).numpy()

    options = dict(beam_size=BEAM, nbest=BEAM, length_penalty="power")
    found = ours.translate(sentences, alpha=alpha, min_length=min_length, **options)
    scores = np.array([[t.score for t in best] for best in found])
    assert (scores >= search()[1] - 1e-4).all()

    monkeypatch.setattr(marian.model, "_update_finished_beams", let_all_end)
    rows, their_scores = search()
    for best, their_best in zip(found, rows, strict=True):
        assert [t.ids for t in best] == [marian.ids(row) for row in their_best]
    np.testing.assert_allclose(scores, their_scores, rtol=1e-4)


# ---- CTranslate2


@pytest.fixture(scope="module")
def make_ctranslate2(tmp_path_factory):
    """A function that makes CTranslate2's translator with the weights of ours."""
    ctranslate2 = pytest.importorskip("ctranslate2")

    def make(translator):
        folder = tmp_path_factory.mktemp("ctranslate2") / "model"
        save_ctranslate2(as_written(translator), folder)
        return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)

    return make


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
def test_greedy_equals_ctranslate2s(ours, make_ctranslate2):
    """Catches what Marian's test does, by another implementation, which may end without EOS."""
    sentences = random_sentences()
    length = max(len(s.split()) for s in sentences) + 1 + EXTRA
    theirs = search_with(make_ctranslate2(ours), sentences, beam_size=1, max_decoding_length=length)
    found = ours.translate(sentences, beam_size=1, alpha=0.0)
    for translation, sentence, [(ids, _)] in zip(found, sentences, theirs, strict=True):
        num_free = len(sentence.split()) + EXTRA  # at the next position ours must end
        assert translation.ids[:num_free] == ids[:num_free]


@pytest.mark.long
def test_live_beams_equal_ctranslate2s(make_ctranslate2):
    """Catches a live hypothesis that is lost, or continued with another's cache, in 20 steps.

    Nothing ends before: CTranslate2 would stop at the W-th hypothesis that ends, if lengths count.
    """
    translator = random_translator(NEVER)
    sentences = [s for s in random_sentences(64) if len(s.split()) == 5]
    options = dict(beam_size=BEAM, max_decoding_length=20, num_hypotheses=BEAM, length_penalty=0)
    theirs = search_with(make_ctranslate2(translator), sentences, **options)
    found = translator.translate(
        sentences, nbest=BEAM, beam_size=BEAM, min_length=21, max_extra_length=21 - 6
    )
    assert len(sentences) > 2
    for best, others in zip(found, theirs, strict=True):
        assert sorted(t.ids[:-1] for t in best) == sorted(ids for ids, _ in others)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_no_translation_of_ctranslate2s_is_better(ours, make_ctranslate2, alpha):
    """Catches a wrong end or score: each of ours has the score that their model gives to it."""
    translate, sentences = make_ctranslate2(ours), random_sentences()
    options = dict(beam_size=BEAM, length_penalty=alpha, max_decoding_length=60)
    theirs = search_with(translate, sentences, **options)
    found = ours.translate(sentences, beam_size=BEAM, alpha=alpha, length_penalty="power")
    sides = [s.split() for s in sentences], [ours.tokenizer.pieces(t.ids[:-1]) for t in found]
    log_probs = [sum(scored.log_probs) for scored in translate.score_batch(*sides)]
    np.testing.assert_allclose([t.log_prob for t in found], log_probs, rtol=1e-4)
    for translation, sentence, [(ids, score)] in zip(found, sentences, theirs, strict=True):
        if ids[-1] == EOS and len(ids) <= len(sentence.split()) + 1 + EXTRA:
            assert translation.score >= score - 1e-4


@pytest.mark.long
def test_early_stopping_is_ctranslate2s(ours, make_ctranslate2):
    """Catches hypotheses that count though the beam left them out, and an end a step too late."""
    translate, sentences = make_ctranslate2(ours), random_sentences()
    options = dict(beam_size=BEAM, num_hypotheses=BEAM, length_penalty=1.0, max_decoding_length=60)
    theirs = search_with(translate, sentences, **options)
    options = dict(beam_size=BEAM, nbest=BEAM, alpha=1.0, length_penalty="power")
    found = ours.translate(sentences, **options, early_stopping=True)
    num_compared = 0
    for best, others, sentence in zip(found, theirs, sentences, strict=True):
        if all(len(ids) <= len(sentence.split()) + EXTRA for ids, _ in others):
            num_compared += 1
            assert [t.ids for t in best] == [ids for ids, _ in others]
    assert num_compared > 2
