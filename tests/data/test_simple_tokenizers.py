"""simple_tokenizers.py: text of known characters comes back to the letter."""

import random

import pytest

from transformer.data.tokenizers.lists import CharacterTokenizer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK

TEXT = ["dé ja  vu ", "a\tb\nc\rd\u2028e\x85f", "日本\U0001f600", "<s>", ""]


@pytest.fixture(scope="module")
def tokenizer():
    return CharacterTokenizer.train(TEXT)


def test_text_of_known_characters_comes_back_exactly(tokenizer):
    """Catches spaces that are joined or stripped, and normalisation."""
    rng = random.Random(0)
    known = sorted(set("".join(TEXT)))
    texts = TEXT + ["".join(rng.choices(known, k=rng.randrange(20))) for _ in range(200)]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert len(ids) == len(text) + 1 and ids[-1] == EOS
        assert tokenizer.decode(ids) == tokenizer.join_pieces(text) == text


def test_ids_are_dense_and_those_of_control_are_no_text(tokenizer):
    """Catches an id beyond the embedding table, and "</s>" in a text that ends it."""
    ids = {i for sentence in tokenizer.encode(TEXT) for i in sentence[:-1]}
    assert ids == set(range(NUM_SPECIAL, tokenizer.vocab_size))
    assert len(tokenizer.encode(["<s>"])[0]) == 4
    assert tokenizer.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert tokenizer.pieces(tokenizer.encode(["a b"])[0]) == ["a", " ", "b", "</s>"]


def test_new_characters_are_unknown_and_one_each(tokenizer):
    """Catches an error in mid-translation, and five letters instead of one."""
    (ids,) = tokenizer.encode(["aßa"])
    assert ids[1] == UNK and UNK not in (ids[0], ids[2])
    assert tokenizer.decode(ids) == "a\ufffda"


def test_what_follows_the_end_is_not_read(tokenizer):
    """Catches padding and the start in a translation."""
    (ids,) = tokenizer.encode(["ab"])
    assert tokenizer.decode([BOS, PAD, *ids, PAD, *ids]) == "ab"
    assert tokenizer.decode([]) == tokenizer.decode([PAD, EOS]) == ""


def test_a_lone_surrogate_is_no_piece():
    """Catches a vocabulary, and then a translation, that no file can hold."""
    tokenizer = CharacterTokenizer.train(["a\ud83d", "\ude00"])
    assert tokenizer.vocab_size == NUM_SPECIAL + 2
    assert tokenizer.decode(tokenizer.encode(["\ud83d"])[0]) == "\ufffd"


def test_it_survives_bytes_and_depends_on_no_order(tokenizer):
    """Catches line breaks that split the file, and a set's order, which changes between starts."""
    again = CharacterTokenizer.from_bytes(tokenizer.to_bytes())
    assert again.pieces(range(again.vocab_size)) == tokenizer.pieces(range(tokenizer.vocab_size))
    assert CharacterTokenizer.train(TEXT[::-1]).to_bytes() == tokenizer.to_bytes()
    everything = [chr(i) for i in (*range(0xD800), *range(0xE000, 0x11000))]
    characters = CharacterTokenizer.train(everything)
    assert CharacterTokenizer.from_bytes(characters.to_bytes()).encode(everything) == [
        [i, EOS] for i in range(NUM_SPECIAL, characters.vocab_size)
    ]


DAMAGED = [b"", b"[]", b"{}", b'"ab"', b'["a", "a"]', b'["ab"]', b'["a", 1]', b'["a",', b"\xff"]


@pytest.mark.parametrize("data", [*DAMAGED, b"[" * 100_000], ids=lambda data: repr(data[:12]))
def test_a_damaged_file_is_refused(data):
    """Catches ids that two characters share, and a stack trace."""
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        CharacterTokenizer.from_bytes(data)


@pytest.mark.parametrize("text", [[], ["", ""]])
def test_no_text_no_tokenizer(text):
    """Catches a run that learns to say nothing."""
    with pytest.raises(ValueError, match="cannot be trained"):
        CharacterTokenizer.train(text)
