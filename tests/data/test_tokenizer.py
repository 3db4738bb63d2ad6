"""sentencepiece.py: any text to ids and back."""

import random

import pytest
import sentencepiece

from tests.helpers.control_ids import EOS, UNK
from tests.helpers.scripts import run_python
from tests.helpers.sentencepiece_models import train_model
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer, splits_by_word
from transformer.special_tokens import NUM_SPECIAL

TEXT = [f"the cat no. {i} sat on the mat, über {i * 7 % 101} Mäuse" for i in range(300)]

TOKENIZER = SentencePieceTokenizer.train(TEXT, 400)


def one_spaced(text):
    """What the tokenizer promises."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = " ".join(filter(None, text.replace("▁", " ").split(" ")))
    return text.replace("\n", " ").replace("\r", " ")


def test_any_text_comes_back():
    """Catches characters lost to UNK, normalisation, an error on a lone surrogate, "<s>" in a text
    that is taken for no text, a quadratic merge, and a byte piece that spells a line feed."""
    rng = random.Random(0)
    planes = [(0, 0x80), (0x80, 0x800), (0x2000, 0x2100), (0x800, 0x10000), (0x10000, 0x110000)]
    texts = ["a\ud800b\udfff", "a </s> <pad>x", "▁", "<0x0A> <0x00>", "⁇ <unk>", "<2de>"]
    for _ in range(1000):
        plane = rng.choice(planes)
        texts.append("".join(chr(rng.randrange(*plane)) for _ in range(rng.randrange(12))))
    for text in texts:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        (ids,) = TOKENIZER.encode([text])
        assert UNK not in ids and TOKENIZER.decode(ids) == one_spaced(text), repr(text)
    assert len(TOKENIZER.encode(["x" * 1_000_000])[0]) > 1000
    assert TOKENIZER.pieces(range(NUM_SPECIAL)) == ["<pad>", "<s>", "</s>", "<unk>"]
    newline = TOKENIZER.pieces(range(400)).index("<0x0A>")
    assert TOKENIZER.decode([*TOKENIZER.encode(["the"])[0][:-1], newline, newline]) == "the  "


def test_the_same_text_gives_the_same_bytes():
    """Catches a thread, hash seed or locale that changes the vocabulary of a resumed run."""
    program = (
        "from tests.data.test_tokenizer import *\n"
        "for t in SentencePieceTokenizer.train(TEXT, 400), PiecesTokenizer.train(TEXT, '@@'):\n"
        "    print(t.to_bytes().hex())\n"
    )
    expected = [t.to_bytes().hex() for t in (TOKENIZER, PiecesTokenizer.train(TEXT, "@@"))]
    for seed, language in (("1", "C"), ("2", "de_DE.UTF-8")):
        env = {"PYTHONHASHSEED": seed, "LANG": language, "LC_ALL": language}
        assert run_python(program, env=env)[1].decode().split() == expected


@pytest.mark.parametrize(
    ("impossible", "said", "step"),
    [(100_000, r"=100000 is more .*largest possible is (\d+)\.$", 1),
     (10, r"=10 is less .*smallest possible is (\d+)\.$", -1)],
)  # fmt: skip
def test_an_impossible_vocabulary_names_the_possible_one(impossible, said, step):
    """Catches a C++ assertion; the sizes named must be true."""
    with pytest.raises(ValueError, match=said) as caught:
        SentencePieceTokenizer.train(TEXT, impossible)
    possible = int(str(caught.value).split()[-1][:-1])
    assert SentencePieceTokenizer.train(TEXT, possible).vocab_size == possible
    with pytest.raises(ValueError, match=f"possible is {possible}"):
        SentencePieceTokenizer.train(TEXT, possible + step)


def test_a_damaged_model_is_refused_or_is_the_same():
    """Catches a truncated file that loads and encodes otherwise."""
    model = TOKENIZER.to_bytes()
    expected = TOKENIZER.encode(TEXT[:20])
    for length in [*range(0, len(model) - 40, 97), *range(len(model) - 40, len(model))]:
        try:
            loaded = SentencePieceTokenizer(model[:length])
        except ValueError as error:
            assert "\n" not in str(error) and "src/" not in str(error)
            assert str(error).endswith(".")
        else:  # cut where only a default was said
            assert loaded.encode(TEXT[:20]) == expected


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
    model = train_model(TEXT, 54, model_type=model_type, **settings)
    tokenizer = SentencePieceTokenizer(model)
    assert tokenizer.special == (*control, control[-1]) and tokenizer.to_bytes() == model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = [*TEXT[:20], "", "unseen: ß ☃", "</s> <pad>"]
    for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
        assert ids == [*processor.encode(line), control[2]]
        assert tokenizer.decode(ids) == processor.decode(ids[:-1])
    with pytest.raises(ValueError, match="has no </s>"):
        SentencePieceTokenizer(train_model(TEXT, 54, model_type=model_type, eos_id=-1))


SPACES = [" ", "  ", "\t", "\n", "\u3000", "\u00a0", "\u200b", "\ufeff", "\x00", "\x85"]
SIGNS = ["a", "e", "th", "ing", "ß", "日本", "😀", "1", ".", "<s>", "</s>", "<0x41>", "x" * 40]


def assert_as_sentencepiece(tokenizer, texts):
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_bytes())
    expected = [[*ids, tokenizer.special.eos] for ids in processor.encode(texts)]
    assert tokenizer.encode(texts) == expected
    flat, lengths = tokenizer.encode_flat(texts)
    assert flat.tolist() == [i for ids in expected for i in ids]
    assert lengths.tolist() == [len(ids) for ids in expected]


@pytest.mark.parametrize("most", [2**18, 20])
def test_ids_of_words_are_those_of_the_whole_sentence(most, monkeypatch):
    """Catches a space that is no end of a word, a word that is forgotten, and ids of another."""
    monkeypatch.setattr("transformer.data.tokenizers.sentencepiece.MOST_WORDS", most)
    tokenizer = SentencePieceTokenizer.train(TEXT, 400)
    rng = random.Random(0)
    odd = ["".join(rng.choices(SPACES + SIGNS, k=rng.randrange(12))) for _ in range(2000)]
    for texts in (TEXT, *(odd[i : i + 7] for i in range(0, len(odd), 7)), []):
        assert_as_sentencepiece(tokenizer, texts)
    assert 0 < len(tokenizer.words) <= most and tokenizer.encode(["", " "]) == [[EOS], [EOS]]


@pytest.mark.parametrize(
    "options",
    [{"split_by_whitespace": False}, {"model_type": "unigram"}, {"add_dummy_prefix": False}],
)
def test_models_whose_pieces_may_cross_words_are_left_to_sentencepiece(options):
    """Catches other ids for a model of the user's own than SentencePiece gives."""
    settings = {"model_type": "bpe", "normalization_rule_name": "identity"} | options
    model = train_model(TEXT, 320, byte_fallback=True, hard_vocab_limit=False, **settings)
    assert not splits_by_word(model)
    assert_as_sentencepiece(SentencePieceTokenizer(model), TEXT)
