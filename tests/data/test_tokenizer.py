"""tokenizer.py: any text to ids and back; no text becomes a control id."""

import hashlib
import io
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from tests.helpers.control_ids import BOS, EOS, PAD, UNK
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import (
    LONGEST_LINE,
    SentencePieceTokenizer,
    splits_by_word,
)
from transformer.special_tokens import NUM_SPECIAL

TEXT = [f"the cat no. {i} sat on the mat, über {i * 7 % 101} Mäuse" for i in range(300)]
CONTROLS = ["<pad>", "<s>", "</s>", "<unk>", "▁", "<0x0A>", "<0x00>", "⁇", "<2de>", "</s> <pad>x"]


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(TEXT, 400)


def back(tokenizer, text):
    return tokenizer.decode(tokenizer.encode([text])[0])


def one_spaced(text):
    """What the tokenizer promises: the same text, but for spaces (and one line of it)."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = " ".join(filter(None, text.replace("▁", " ").split(" ")))
    return text.replace("\n", " ").replace("\r", " ")


@pytest.mark.parametrize("seed", range(4))
def test_any_text_comes_back(tokenizer, seed):
    """Catches characters lost to UNK, normalisation, and an error on a lone surrogate."""
    rng = random.Random(seed)
    planes = [(0, 0x80), (0x80, 0x800), (0x2000, 0x2100), (0x800, 0x10000), (0x10000, 0x110000)]
    for _ in range(300):
        plane = rng.choice(planes)
        text = "".join(chr(rng.randrange(*plane)) for _ in range(rng.randrange(12)))
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        (ids,) = tokenizer.encode([text])
        assert UNK not in ids and tokenizer.decode(ids) == one_spaced(text), repr(text)


def test_lone_surrogates_become_the_replacement_character(tokenizer):
    """Catches a cast error inside SentencePiece, and "?" instead of them."""
    assert back(tokenizer, "a\ud800b\udfff") == "a\ufffdb\ufffd"


def test_a_translation_is_one_line(tokenizer):
    """Catches a byte piece that spells a line feed: one line in would be two out."""
    newline = next(i for i in range(400) if tokenizer.pieces([i]) == ["<0x0A>"])
    assert tokenizer.decode([*tokenizer.encode(["the"])[0][:-1], newline, newline]) == "the  "


@pytest.mark.parametrize("text", CONTROLS)
@pytest.mark.parametrize("kind", ["sentencepiece", "pieces"])
def test_no_text_becomes_a_control_id(tokenizer, text, kind):
    """Catches a sentence that ends, pads or begins itself."""
    tokenizers = {
        "sentencepiece": [tokenizer, SentencePieceTokenizer.train([*TEXT, *CONTROLS * 50], 400)],
        "pieces": [PiecesTokenizer.train(["a b", *CONTROLS], "@@")],
    }[kind]
    for each in tokenizers:
        (ids,) = each.encode([f"a {text} b"])
        assert ids[-1] == EOS and not {PAD, BOS, EOS, UNK} & set(ids[:-1])
        assert each.decode(ids) == (
            one_spaced(f"a {text} b") if kind != "pieces" else f"a {text} b"
        )


def test_every_sentence_ends_with_eos_and_what_follows_it_is_not_read(tokenizer):
    """Catches an empty sentence without an end, and padding in a translation."""
    assert tokenizer.encode(["", " "]) == [[EOS], [EOS]]
    ids = tokenizer.encode(["the cat"])[0]
    assert tokenizer.decode([BOS, *ids, PAD, *ids]) == "the cat"
    assert tokenizer.decode([]) == tokenizer.decode([PAD, PAD]) == ""


@pytest.mark.parametrize("batch", [[[5, 6], [7]], np.array([[5, 6]])], ids=["list", "array"])
def test_a_batch_is_decoded_one_by_one(tokenizer, batch):
    """Catches an error about dimensions of arrays, as `encode` returns what `decode` refuses."""
    with pytest.raises(ValueError, match=r"ids of one sentence; for several, .*for ids in batch\]"):
        tokenizer.decode(batch)


def test_ids_are_dense_and_specials_first(tokenizer):
    """Catches an id beyond the embedding table."""
    ids = [i for sentence in tokenizer.encode(TEXT) for i in sentence]
    assert max(ids) < tokenizer.vocab_size == 400
    assert tokenizer.pieces(range(NUM_SPECIAL)) == ["<pad>", "<s>", "</s>", "<unk>"]


def test_the_same_text_gives_the_same_bytes(tokenizer):
    """Catches a thread, hash seed or locale that changes the vocabulary of a resumed run."""
    assert SentencePieceTokenizer.train(TEXT, 400).to_bytes() == tokenizer.to_bytes()
    pieces = PiecesTokenizer.train(TEXT, "@@").to_bytes()
    program = (
        "import hashlib, sys\n"
        "from transformer.data.tokenizers.lists import PiecesTokenizer\n"
        "from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer\n"
        "text = [f'the cat no. {i} sat on the mat, über {i * 7 % 101} Mäuse' for i in range(300)]\n"
        "for t in SentencePieceTokenizer.train(text, 400), PiecesTokenizer.train(text, '@@'):\n"
        "    print(hashlib.sha256(t.to_bytes()).hexdigest())\n"
    )
    expected = [hashlib.sha256(data).hexdigest() for data in (tokenizer.to_bytes(), pieces)]
    for seed, language in (("1", "C"), ("2", "de_DE.UTF-8")):
        env = os.environ | {"PYTHONHASHSEED": seed, "LANG": language, "LC_ALL": language}
        out = subprocess.run(
            [sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True
        )
        assert out.stdout.split() == expected


def test_an_impossible_vocabulary_names_the_possible_one():
    """Catches a C++ assertion; the sizes named must be true."""
    with pytest.raises(ValueError, match=r"=100000 is more .*largest possible is \d+\.$") as caught:
        SentencePieceTokenizer.train(TEXT, 100_000)
    largest = int(str(caught.value).split()[-1][:-1])
    assert SentencePieceTokenizer.train(TEXT, largest).vocab_size == largest
    with pytest.raises(ValueError, match="largest"):
        SentencePieceTokenizer.train(TEXT, largest + 1)
    with pytest.raises(ValueError, match=r"=10 is less .*smallest possible is \d+\.$") as caught:
        SentencePieceTokenizer.train(TEXT, 10)
    smallest = int(str(caught.value).split()[-1][:-1])
    assert SentencePieceTokenizer.train(TEXT, smallest).vocab_size == smallest
    with pytest.raises(ValueError, match="smallest"):
        SentencePieceTokenizer.train(TEXT, smallest - 1)


@pytest.mark.parametrize("text", [[], [""], [" ", "\t"], ["x" * (LONGEST_LINE + 1)]])
def test_no_text_no_tokenizer(text):
    """Catches an error that speaks of the inside of SentencePiece."""
    with pytest.raises(ValueError, match=r"^A tokenizer cannot be trained: [^\n]*\.$"):
        SentencePieceTokenizer.train(text, 300)


def test_a_line_of_a_million_characters_is_tokenised(tokenizer):
    """Catches a quadratic merge, which the length filter could not save us from."""
    assert len(tokenizer.encode(["x" * 1_000_000])[0]) > 1000


def test_a_damaged_model_is_refused_or_is_the_same(tokenizer):
    """Catches a truncated file that loads and encodes otherwise."""
    model = tokenizer.to_bytes()
    expected = tokenizer.encode(TEXT[:20])
    for length in [*range(0, len(model) - 40, 97), *range(len(model) - 40, len(model))]:
        try:
            loaded = SentencePieceTokenizer(model[:length])
        except ValueError as error:
            assert "\n" not in str(error) and "src/" not in str(error)
            assert str(error).endswith(".")
        else:  # cut where only a default was said
            assert loaded.encode(TEXT[:20]) == expected


def train_sentencepiece(vocab_size, text=TEXT, **settings):
    """The bytes of a model as spm_train makes it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=vocab_size, minloglevel=2,
        num_threads=1, **settings,
    )  # fmt: skip
    return model.getvalue()


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("control", "settings"),
    [
        ((-1, 1, 2, 0), {}),
        ((0, 0, 1, 2), dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
        ((1, 2, 3, 0), dict(unk_id=0, pad_id=1, bos_id=2, eos_id=3, unk_piece="?")),
        ((-1, 0, 0, 1), dict(eos_id=0, unk_id=1, bos_id=-1)),
    ],
    ids=["spm_train", "T5", "all", "no start"],
)
def test_a_model_keeps_its_control_ids(model_type, control, settings):
    """Catches a piece that is renumbered, an end of sentence that is text, another segmentation."""
    model = train_sentencepiece(54, model_type=model_type, **settings)
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.special == (*control, control[-1]) and tokenizer.to_bytes() == model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [*TEXT[:20], "", "unseen: ß ☃", "</s> <pad>"]
    for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
        assert ids == [*processor.encode(line), control[2]]
        assert tokenizer.decode(ids) == processor.decode(ids[:-1])
    with pytest.raises(ValueError, match="has no </s>"):
        SentencePieceTokenizer(train_sentencepiece(54, model_type=model_type, eos_id=-1))


SPACES = [" ", "  ", "\t", "\n", "\u3000", "\u00a0", "\u200b", "\ufeff", "\x00", "\x85"]
SIGNS = ["a", "e", "th", "ing", "ß", "日本", "😀", "1", ".", "<s>", "</s>", "<0x41>", "x" * 40]


@pytest.mark.parametrize("most", [2**18, 20])
def test_ids_of_words_are_those_of_the_whole_sentence(most, monkeypatch):
    """Catches a space that is no end of a word, a word that is forgotten, and ids of another."""
    monkeypatch.setattr("transformer.data.tokenizers.sentencepiece.MOST_WORDS", most)
    tokenizer = SentencePieceTokenizer.train(TEXT, 400)
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
    rng = random.Random(0)
    odd = ["".join(rng.choices(SPACES + SIGNS, k=rng.randrange(12))) for _ in range(2000)]
    for batch in (TEXT, *(odd[i : i + 7] for i in range(0, len(odd), 7)), []):
        expected = [[*ids, EOS] for ids in processor.encode(batch)]
        assert tokenizer.encode(batch) == expected
        flat, lengths = tokenizer.encode_flat(batch)
        assert flat.tolist() == [i for ids in expected for i in ids]
        assert lengths.tolist() == [len(ids) for ids in expected]
    assert 0 < len(tokenizer.words) <= most


@pytest.mark.parametrize(
    "options",
    [{"split_by_whitespace": False}, {"model_type": "unigram"}, {"add_dummy_prefix": False}],
)
def test_models_whose_pieces_may_cross_words_are_left_to_sentencepiece(options):
    """Catches other ids for a model of the user's own than SentencePiece gives."""
    settings = {"model_type": "bpe", "normalization_rule_name": "identity"} | options
    model = train_sentencepiece(320, byte_fallback=True, hard_vocab_limit=False, **settings)
    assert not splits_by_word(model)
    tokenizer = SentencePieceTokenizer(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = [[*ids, tokenizer.special.eos] for ids in processor.encode(TEXT)]
    assert tokenizer.encode(TEXT) == expected
    assert tokenizer.encode_flat(TEXT)[0].tolist() == [i for ids in expected for i in ids]
