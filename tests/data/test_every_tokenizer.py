"""What all tokenizers promise."""

import functools
import json
import pickle

import numpy as np
import pytest

from tests.helpers.sentencepiece_models import pieces_of, train_model
from transformer.data.tokenizers.files import READERS, parse_tokenizers
from transformer.data.tokenizers.huggingface import train_byte_level
from transformer.data.tokenizers.lists import (
    CharacterTokenizer,
    PieceListTokenizer,
    PiecesTokenizer,
)
from transformer.data.tokenizers.sentencepiece import LONGEST_LINE, SentencePieceTokenizer
from transformer.interop.huggingface.tokens import BERT, bert_json, with_control_tokens
from transformer.special_tokens import SPECIAL_NAMES, SpecialIds

TEXT = [f"the cat no. {i} sat on the mat, über {i * 7 % 101} Mäuse" for i in range(300)]
CONTROL = [*SPECIAL_NAMES, "[SEP]", "[CLS]", "[PAD]", "[MASK]", "<|endoftext|>", "</s> <pad>x"]
ODD = ["\ufeff", "\x85", "\u2028", "a\nb", '"', "\\", "\x7f", "ﬁ", "\x00", "\x1f"]


def list_tokenizer(*text, first=()):
    model = train_model(text, 75, hard_vocab_limit=False)
    pieces = list(dict.fromkeys(["</s>", "<unk>", *ODD, *pieces_of(model), *first, "<pad>"]))
    pad = pieces.index("<pad>")
    return PieceListTokenizer(model, pieces, first, SpecialIds(pad, pad, 0, 1, 1))


MAKE = {
    "sentencepiece": lambda: SentencePieceTokenizer.train(TEXT, 400),
    "control in the text": lambda: SentencePieceTokenizer.train([*TEXT, *CONTROL * 50], 400),
    "characters": lambda: CharacterTokenizer.train([*TEXT, *CONTROL, *ODD]),
    "pieces": lambda: PiecesTokenizer.train(["ä@@ the cat \ufffd ▁ #", *CONTROL], "@@"),
    "list": lambda: list_tokenizer(*TEXT, first=["__de__"]),
    "control in a list": lambda: list_tokenizer(*TEXT, *CONTROL * 50),
    "byte level": lambda: train_byte_level([*TEXT, *CONTROL], 300),
    "BERT": lambda: with_control_tokens(bert_json("\n".join([*BERT, "the", "cat", "##s"])), BERT),
}
BYTE_FALLBACK = "sentencepiece", "control in the text", "byte level"
made = functools.cache(lambda name: MAKE[name]())
every = pytest.mark.parametrize("name", MAKE)


@every
def test_no_text_becomes_a_control_id(name):
    """Catches a sentence that ends, pads or begins itself, as "[SEP]" does in transformers."""
    tokenizer = made(name)
    pad, bos, eos, unk, mask = tokenizer.special
    forbidden = {pad, bos, eos} | ({mask} - {unk}) | ({unk} if name in BYTE_FALLBACK else set())
    start = {"list": tokenizer.encode([""])[0][:-1], "BERT": [bos]}.get(name, [])
    texts = [*CONTROL, *(f"cat {control} {control}cat" for control in CONTROL), *ODD, "", " "]
    for text, ids in zip(texts, tokenizer.encode(texts), strict=True):
        assert ids[: len(start)] == start and ids[-1] == eos, text
        assert not forbidden & {*ids[len(start) : -1]}, text
        assert {*ids} <= {*range(tokenizer.vocab_size)}
    with pytest.raises(ValueError, match="not a single one"):
        tokenizer.encode("text")


@every
def test_what_follows_the_end_is_not_read(name):
    """Catches padding in a translation, and an error about dimensions of arrays, as `encode`
    returns what `decode` refuses."""
    tokenizer = made(name)
    pad, bos, *_ = tokenizer.special
    (ids,) = tokenizer.encode(["the cat"])
    starts = [] if name == "byte level" else [bos, pad]
    assert tokenizer.decode([*starts, *ids, pad, *ids]) == "the cat" == tokenizer.decode(ids)
    assert tokenizer.decode([]) == tokenizer.decode(starts) == ""
    for batch in ([[5, 6], [7]], np.array([[5, 6]])):
        with pytest.raises(ValueError, match=r"one sentence; for several: .*for ids in batch\]"):
            tokenizer.decode(batch)


@every
def test_they_survive_bytes(name):
    """Catches a piece that the file changes, such as a byte order mark or a line separator, and
    control ids that are lost, in a file or on the way to a worker process."""
    before = made(name)
    ids, texts = range(before.vocab_size), [*TEXT, *CONTROL, *ODD, "", "ä@@ the"]
    for after in READERS[before.suffix](before.to_bytes()), pickle.loads(pickle.dumps(before)):
        assert after.vocab_size == len(ids) and after.pieces(ids) == before.pieces(ids)
        assert after.special == before.special and after.to_bytes() == before.to_bytes()
        assert after.encode(texts) == before.encode(texts)
        assert after.join_pieces("ä@@ the") == before.join_pieces("ä@@ the")


@every
def test_damaged_files_are_refused_in_one_sentence(name):
    """Catches a stack trace, and ids that two pieces share."""
    data, suffix = made(name).to_bytes(), made(name).suffix
    files = [b"", b"\xff", b"[" * 100_000, data[: len(data) // 2]]
    if suffix == ".vocab":  # which any text is, unless it has no piece, or one twice
        files = [b"", b"@@", b"@@\na\na", b"@@\n\xff"]
    elif suffix == ".pieces":
        whole = json.loads(data)
        damages = [
            {"pieces": [*whole["pieces"], "ﬁ"]}, {"pieces": ["</s>", "<unk>"]},
            {"pieces": [1, 2, 3]}, {"first": ["no"]}, {"first": None}, {"special": [0, "x"]},
            {"model": ""}, {"model": 3}, {"model": "!"}, {"model": whole["model"][:400]},
        ]  # fmt: skip
        files += [b"[]", b"3", *(json.dumps(whole | damage).encode() for damage in damages)]
    elif suffix == ".characters":
        files += [b"[]", b"{}", b'["a", "a"]', b'["a",']
    elif suffix == ".json":
        files += [b"{}", data[:99], data[:-9]]
    for damaged in files:
        with pytest.raises(ValueError, match=r"^run/tokenizer\.[^\n]*: restore the file, .*\.$"):
            parse_tokenizers({f"tokenizer{suffix}": damaged}, "run")


def test_no_text_no_tokenizer():
    """Catches a run that learns to say nothing, and an error that speaks of SentencePiece."""
    pieces = functools.partial(PiecesTokenizer.train, joiner="")
    sentencepiece = functools.partial(SentencePieceTokenizer.train, vocab_size=300)
    for train, blank in (CharacterTokenizer.train, ""), (pieces, " "), (sentencepiece, "\t"):
        for text in ([], [blank, blank]):
            with pytest.raises(ValueError, match=r"^A tokenizer cannot .*: .* holds no text\.$"):
                train(text)
    with pytest.raises(ValueError, match=r"^A tokenizer cannot be trained: every line is longer"):
        sentencepiece(["x" * (LONGEST_LINE + 1)])


def test_tokenizers_are_shown_by_their_kind_and_size():
    """Catches <… object at 0x7f31…>, which names neither and differs between processes."""
    assert repr(CharacterTokenizer(map(chr, range(65, 1065)))) == "CharacterTokenizer(1,004 pieces)"
    assert repr(made("sentencepiece")) == "SentencePieceTokenizer(400 pieces)"
