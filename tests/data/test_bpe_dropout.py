"""bpe_dropout.py: words in other pieces, as likely as in the paper's algorithm."""

import io
from collections import Counter

import numpy as np
import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from transformer.data.rows.bpe_dropout import BpeDropout, random_keys
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.special_tokens import UNK

TEXT = [f"the cat no. {i} sat on the mattress, über {i * 7 % 101} Mäuse" for i in range(300)]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(TEXT, 400)


def trained(**options):
    """The bytes of a SentencePiece model with other options than ours."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=60, minloglevel=2,
        pad_id=0, bos_id=1, eos_id=2, unk_id=3, **options,
    )  # fmt: skip
    return model.getvalue()


def segmentations(pieces, score, rate):
    """{pieces at the end: probability} of Algorithm 1, by going through all that may be dropped."""
    merges = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in score]
    merges.sort(key=lambda i: -score[pieces[i] + pieces[i + 1]])
    found = Counter({tuple(pieces): rate ** len(merges)})  # all dropped
    for k, i in enumerate(merges):
        merged = [*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :]]
        for end, probability in segmentations(merged, score, rate).items():
            found[end] += rate**k * (1 - rate) * probability
    return found


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_are_as_likely_as_in_the_paper(tokenizer, rate):
    """Catches merges in another order, at another rate, or dropped for good."""
    spec = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model)
    score = {p.piece: p.score for p in spec.pieces if p.type == p.NORMAL}
    words, number = ["the", "cat", "über", "Mäuse", "mattress"], 8_000
    ids = [tokenizer.encode([word])[0][:-1] for word in words]
    many = Ragged.from_lists([word for word in ids for _ in range(number)])
    segmented = BpeDropout(tokenizer.model, rate).segment(many, random_keys((0,), (len(many),)))
    for nth, word in enumerate(words):
        expected = segmentations(list("▁" + word), score, rate)
        drawn = Counter(
            tuple(segmented[i].tolist()) for i in range(nth * number, nth * number + number)
        )
        drawn = {tuple(tokenizer.pieces(key)): count / number for key, count in drawn.items()}
        assert drawn.keys() <= expected.keys() and len(drawn) > 3
        for pieces, probability in expected.items():
            margin = 5 * np.sqrt(probability / number) + 5 / number
            assert abs(drawn.get(pieces, 0) - probability) < margin, (pieces, probability)


def test_a_word_and_its_key_alone_say_what_is_drawn(tokenizer):
    """Catches draws that depend on the other words of a batch, as on another number of hosts."""
    bpe, ids = BpeDropout(tokenizer.model, 0.3), tokenizer.encode(TEXT)
    words, keys = Ragged.from_lists(ids), random_keys((0,), (len(ids),))
    together = bpe.segment(words, keys)
    order = np.random.default_rng(0).permutation(len(ids))[:50]
    apart = bpe.segment(words.take(order), keys[order])
    assert all(np.array_equal(together[i], apart[n]) for n, i in enumerate(order))
    assert any(not np.array_equal(together[i], words[i]) for i in order)


def test_what_bpe_does_not_merge_stays():
    """Catches tags that fall apart, and bytes or UNK that are lost or become other text."""
    tokenizer = SentencePieceTokenizer.train(TEXT, 400, tags=["<2de>"])
    words = Ragged.from_lists([[*tokenizer.encode(["<2de> cat 🙂 cat"])[0], UNK], [UNK]])
    segmented = BpeDropout(tokenizer.model, 0.5).segment(words, random_keys((1,), (2,)))
    assert segmented[0][0] == words[0][0] and tokenizer.pieces(words[0])[0] == "▁<2de>"
    assert segmented[0][-1] == UNK and segmented[1].tolist() == [UNK]
    assert tokenizer.decode(segmented[0][:-1]) == "<2de> cat 🙂 cat"


def test_pieces_may_go_beyond_spaces():
    """Catches words cut where a vocabulary has pieces such as "▁the▁cat"."""
    model = trained(model_type="bpe", split_by_whitespace=False)
    bpe, tokenizer = BpeDropout(model, 0.05), SentencePieceTokenizer(model)
    assert not bpe.begins_word.any()
    words = Ragged.encode(tokenizer, TEXT)
    segmented = bpe.segment(words, random_keys((0,), (len(words),)))
    assert [tokenizer.decode(segmented[i]) for i in range(len(TEXT))] == TEXT
    pieces = {piece for i in range(len(TEXT)) for piece in tokenizer.pieces(segmented[i])}
    assert any("▁" in piece[1:] for piece in pieces)


def test_a_vocabulary_without_merges_is_refused():
    """Catches a unigram model that is segmented as if it were BPE."""
    with pytest.raises(ValueError, match=r"subword_dropout drops merges of BPE.*model_type=bpe"):
        BpeDropout(trained(model_type="unigram"), 0.1)
