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

from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer
from transformer.data.tokenizers.sentencepiece import (
    LONGEST_LINE,
    SentencePieceTokenizer,
    encode_flat,
)
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
        "from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer\n"
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


def train_sentencepiece(vocab_size, **settings):
    """The bytes of a model as spm_train makes it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=vocab_size, minloglevel=2,
        num_threads=1, **settings,
    )  # fmt: skip
    return model.getvalue()


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (3, {}),
        (3, dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)),
        (4, dict(unk_id=0, pad_id=1, bos_id=2, eos_id=3, unk_piece="?")),
        (3, dict(eos_id=0, unk_id=1, bos_id=-1, pad_id=2, pad_piece="<blank>")),
    ],
    ids=["spm_train", "T5", "all", "Marian"],
)
def test_a_model_may_have_any_control_ids(model_type, count, settings):
    """Catches a piece lost or renumbered, an end of sentence that is text, another segmentation."""
    settings = settings | dict(model_type=model_type)
    theirs = train_sentencepiece(50 + count, **settings)
    ours = SentencePieceTokenizer(theirs)
    processor = sentencepiece.SentencePieceProcessor(model_proto=theirs)
    control = {processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id()}
    kept = [processor.id_to_piece(i) for i in range(50 + count) if i not in control]
    assert ours.pieces(range(ours.vocab_size))[NUM_SPECIAL:] == kept
    lines = [*TEXT[:20], "", "unseen: ß ☃", *kept[:5]]
    for line, ids in zip(lines, ours.encode(lines), strict=True):
        assert ids[-1] == EOS and not {PAD, BOS, EOS} & {*ids[:-1]}
        pieces = processor.encode(line.replace("▁", " "), out_type=str)
        known = [p if p in kept else ours.pieces([UNK])[0] for p in pieces]
        assert ours.pieces(ids[:-1]) == known
        assert ours.decode(ids) == processor.decode(processor.encode(line.replace("▁", " ")))
    saved = SentencePieceTokenizer(ours.to_bytes())
    assert saved.to_bytes() == ours.to_bytes() and saved.encode(lines) == ours.encode(lines)


def test_a_model_of_any_ids_prepares_the_same_corpus():
    """Catches ids that depend on those in the file, so that runs of one vocabulary differ."""
    ids = dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3)
    settings = dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity")
    own = SentencePieceTokenizer(train_sentencepiece(304, **ids, **settings))
    theirs = SentencePieceTokenizer(train_sentencepiece(303, **settings))
    assert own.words is not None and theirs.words is not None
    for ours, other in zip(encode_flat(own, TEXT), encode_flat(theirs, TEXT), strict=True):
        assert np.array_equal(ours, other)


def test_a_control_token_that_is_text_is_refused():
    """Catches padding that a text can contain."""
    with pytest.raises(ValueError, match=r"no control token '<pad>' but a piece"):
        SentencePieceTokenizer(train_sentencepiece(50, user_defined_symbols=["<pad>"]))


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
