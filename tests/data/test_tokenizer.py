"""tokenizer.py: any text to ids and back; no text becomes a control id."""

import hashlib
import os
import random
import subprocess
import sys

import pytest

from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.data.tokenizer import LONGEST_LINE, SentencePieceTokenizer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK

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
        "from transformer.data.simple_tokenizers import PiecesTokenizer\n"
        "from transformer.data.tokenizer import SentencePieceTokenizer\n"
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


def test_a_model_with_other_control_ids_is_refused():
    """Catches a model whose end of sentence is our padding."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=60, minloglevel=2
    )
    with pytest.raises(ValueError, match=r"pad_id=0, bos_id=1, eos_id=2 and unk_id=3, not"):
        SentencePieceTokenizer(model.getvalue())


def test_ready_made_pieces():
    """Catches joins across words, the vocabulary's order, and new pieces without an id."""
    tokenizer = PiecesTokenizer.train(["a@@ b c", "c d@@ e"], "@@")
    assert tokenizer.pieces(range(tokenizer.vocab_size))[NUM_SPECIAL:] == [
        *("c", "a@@", "b", "d@@", "e")
    ]
    assert back(tokenizer, "a@@ b  c d@@ e") == "ab c de"
    assert back(tokenizer, "c a@@") == "c a"
    assert tokenizer.encode(["c new"]) == [[NUM_SPECIAL, UNK, EOS]]
    assert tokenizer.decode([UNK, NUM_SPECIAL, EOS, NUM_SPECIAL]) == "<unk> c"
    assert tokenizer.join_pieces("x@@ y @@ z") == "xy z"
    assert PiecesTokenizer.train(["a@@ b"], "").join_pieces("a@@ b") == "a@@ b"


def test_pieces_survive_bytes():
    """Catches a vocabulary that is read back shifted by one."""
    tokenizer = PiecesTokenizer.train(["ä@@ b \ufffd ▁ #"], "@@")
    again = PiecesTokenizer.from_bytes(tokenizer.to_bytes())
    assert again.pieces(range(again.vocab_size)) == tokenizer.pieces(range(tokenizer.vocab_size))
    assert again.join_pieces("ä@@ b") == "äb"


@pytest.mark.parametrize("data", [b"", b"@@", b"@@\na\na", b"@@\n\xff"])
def test_a_damaged_vocabulary_is_refused(data):
    """Catches ids that two pieces share, and a run with no pieces."""
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        PiecesTokenizer.from_bytes(data)
