"""word_ids.py: the ids of words one after another are what SentencePiece gives for the sentence."""

import io
import random
import sys
from itertools import count

import pytest
import sentencepiece

from transformer.config import DataConfig
from transformer.data.corpora.training_text import load_evaluation_pairs
from transformer.data.tokenizers import word_ids
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer, encode_flat
from transformer.data.tokenizers.word_ids import WordIds, splits_by_word
from transformer.special_tokens import BOS, EOS, PAD, UNK

SPACES = [" ", "  ", "\t", "\n", "\u3000", "\u00a0", "\u200b", "\ufeff", "\x00", "\x85"]
SIGNS = ["a", "e", "th", "ing", "ß", "日本", "😀", "1", ".", "<s>", "</s>", "<0x41>", "x" * 40]


@pytest.fixture(scope="module")
def text():
    return [side for pair in load_evaluation_pairs(DataConfig(), "test") for side in pair]


@pytest.fixture(scope="module")
def model(text):
    return SentencePieceTokenizer.train(text, 800).to_bytes()


@pytest.mark.parametrize("most", [2**18, 20])
def test_ids_are_those_of_the_whole_sentence(text, model, most, monkeypatch):
    """Catches a space that is no end of a word, a word that is forgotten, and ids of another."""
    monkeypatch.setattr(word_ids, "MOST_WORDS", most)
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.words is not None
    rng = random.Random(0)
    odd = ["".join(rng.choices(SPACES + SIGNS, k=rng.randrange(12))) for _ in range(2000)]
    for batch in (text, *(odd[i : i + 7] for i in range(0, len(odd), 7)), []):
        expected = [[*ids, EOS] for ids in tokenizer._processor.encode(batch)]
        assert tokenizer.encode(batch) == expected
        flat, lengths = encode_flat(tokenizer, batch)
        assert flat.tolist() == [i for ids in expected for i in ids]
        assert lengths.tolist() == [len(ids) for ids in expected]
    assert len(tokenizer.words) <= most


@pytest.mark.parametrize("most", [2**18, 40])
def test_a_signal_at_any_operation_leaves_every_word_its_ids(text, model, most, monkeypatch):
    """Catches a word that has its neighbour's ids for ever, once a signal has cut a call short."""
    monkeypatch.setattr(word_ids, "MOST_WORDS", most)
    expected = SentencePieceTokenizer(model).encode(text[:12])
    for when in count():
        tokenizer = SentencePieceTokenizer(model)
        tokenizer.encode(text[:1])
        if not is_interrupted(lambda t=tokenizer: t.encode(text[1:3]), when):
            break
        assert tokenizer.encode(text[:12]) == expected, when
    assert when > 100


def is_interrupted(call, when):
    """Whether an error, raised at that operation of those that change a `WordIds`, ended a call."""
    operations = count()
    changing = (WordIds.__missing__.__code__, WordIds._all_arrays.__code__)

    def trace(frame, event, _):
        if frame.f_code not in changing:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(operations) == when:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize(
    "options",
    [{"split_by_whitespace": False}, {"model_type": "unigram"}, {"add_dummy_prefix": False}],
)
def test_models_whose_pieces_may_cross_words_are_left_to_sentencepiece(text, options):
    """Catches other ids for a model of the user's own than SentencePiece gives."""
    model = io.BytesIO()
    settings = {"model_type": "bpe", "normalization_rule_name": "identity"} | options
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=700, byte_fallback=True,
        pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK, minloglevel=2, **settings,
    )  # fmt: skip
    assert not splits_by_word(model.getvalue())
    tokenizer = SentencePieceTokenizer(model.getvalue())
    assert tokenizer.encode(text[:50]) == [
        [*ids, EOS] for ids in tokenizer._processor.encode(text[:50])
    ]
