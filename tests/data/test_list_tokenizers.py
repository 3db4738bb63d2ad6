"""lists.py: the ids and texts of characters, ready-made pieces, and imported translation models."""

import json
import random

import pytest
import sentencepiece

from tests.helpers.control_ids import BOS, EOS, PAD, UNK
from tests.helpers.sentencepiece_models import pieces_of, train_model
from transformer.data.tokenizers.lists import (
    CharacterTokenizer,
    PieceListTokenizer,
    PiecesTokenizer,
)
from transformer.special_tokens import NUM_SPECIAL, SPECIAL_NAMES, SpecialIds

ENGLISH = [f"The cat no. {i} sat on the mat, isn't it?" for i in range(200)]
GERMAN = [f"Die Katze Nr. {i} saß auf der Matte, über {i % 7} Mäusen." for i in range(200)]
HARD = [
    *("", " ", "  The   cat  ", "The\tcat\u00a0sat", "a▁cat ▁ sat▁", "▁"),
    *("ﬁne ① Ⅳ ½", "e\u0301le\u0300ve", "\u200bcat\u200d", "\ufeffcat", "The cat\n"),
    *(">>fra<<", ">>", "<<", "> >fra<< cat", "THE CAT", "ß", "isn't", "it ?", "“cat”", "_ _", "__"),
    *("日本 cat 日 本", "😀😀 cat😀", "x\x00y", "...!!"),
]  # fmt: skip
LANGUAGES = [">>fra<<The cat", ">>fra<< The cat", ">>zho_Hant<<  cat", " >>fra<< The cat"]


MODELS = train_model(ENGLISH, 70, hard_vocab_limit=False), train_model(GERMAN, 60, model_type="bpe")
UNION = list(dict.fromkeys([*pieces_of(MODELS[0]), *pieces_of(MODELS[1])]))
# One list for both sides, whose order is that of neither model.
ALL = [*SPECIAL_NAMES, *sorted(UNION, key=lambda p: p[::-1]), ">>fra<<", ">>zho_Hant<<"]
MARIAN = [PieceListTokenizer(model, ALL) for model in MODELS]


def test_the_model_splits_and_the_list_numbers():
    """Catches the ids of the SentencePiece model, whose order is another, an error on an emoji or
    half of one, and "⁇" in a translation."""
    source, target = MARIAN
    processor = sentencepiece.SentencePieceProcessor(model_proto=MODELS[0])
    for text, ids in zip(ENGLISH, source.encode(ENGLISH), strict=True):
        assert source.pieces(ids) == [*processor.encode(text, out_type=str), "</s>"]
        assert source.decode(ids) == source.join_pieces(text) == text
        assert target.decode(ids) == text  # "▁" of pieces that the target's model does not know
    ids = source.encode(["cat 😀😀", "cat \ud83d"])
    assert ids[0].count(UNK) == 1  # the model's normalisation drops U+FFFD
    assert [*map(source.decode, ids)] == ["cat", "cat"]


def test_a_language_in_the_list_is_one_token_at_the_beginning():
    """Catches a language that is split, one that is lost from the rest, and one amid the text."""
    tokenizer = MARIAN[0]
    fra, cat = tokenizer.vocab_size - 2, tokenizer.encode(["The cat"])[0]
    for text in (">>fra<<The cat", ">>fra<< The cat", ">>fra<<   The cat"):
        assert tokenizer.encode([text]) == [[fra, *cat]]
    assert tokenizer.encode([">>fra<<"]) == [[fra, EOS]]
    for text in ("The >>fra<< cat", " >>fra<< The cat", ">>deu<< The cat", ">> The << cat"):
        assert fra not in tokenizer.encode([text])[0]
    assert tokenizer.decode(tokenizer.encode([">>fra<< The cat"])[0]) == ">>fra<< The cat"


@pytest.mark.parametrize(("own", "other"), [("__de__", "__fr__"), ("deu_Latn", "fra_Latn")])
def test_texts_begin_with_their_language(own, other):
    """Catches a target whose language the search does not force, and languages in translations."""
    german = MODELS[1]
    pieces = [*SPECIAL_NAMES, *pieces_of(german), other, own]
    tokenizer = PieceListTokenizer(german, pieces, [own])
    first, second = tokenizer.vocab_size - 1, tokenizer.vocab_size - 2
    katze = PieceListTokenizer(german, pieces).encode(["Die Katze"])[0]
    assert tokenizer.encode(["", "Die Katze", f"{other} Die Katze"]) == [
        [first, EOS], [first, *katze], [second, *katze]
    ]  # fmt: skip
    assert tokenizer.decode([first, *katze[:-1], second, *katze]) == "Die Katze Die Katze"
    with pytest.raises(ValueError, match="no piece '__xx__'"):
        PieceListTokenizer(german, pieces, ["__xx__"])


CHARACTERS = ["dé ja  vu ", "a\tb\nc\rd\u2028e\x85f", "日本\U0001f600", "<s>", ""]
KNOWN = CharacterTokenizer.train(CHARACTERS)


def test_text_of_known_characters_comes_back_exactly():
    """Catches spaces that are joined or stripped, normalisation, an id beyond the embedding table,
    and a set's order, which changes between starts."""
    rng = random.Random(0)
    known = sorted(set("".join(CHARACTERS)))
    texts = CHARACTERS + ["".join(rng.choices(known, k=rng.randrange(20))) for _ in range(200)]
    for text, ids in zip(texts, KNOWN.encode(texts), strict=True):
        assert len(ids) == len(text) + 1 and ids[-1] == EOS
        assert KNOWN.decode(ids) == KNOWN.join_pieces(text) == text
    ids = {i for sentence in KNOWN.encode(CHARACTERS) for i in sentence[:-1]}
    assert ids == set(range(NUM_SPECIAL, KNOWN.vocab_size))
    assert KNOWN.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert KNOWN.pieces(KNOWN.encode(["a b"])[0]) == ["a", " ", "b", "</s>"]
    assert CharacterTokenizer.train(CHARACTERS[::-1]).to_bytes() == KNOWN.to_bytes()


def test_new_characters_are_unknown_and_one_each():
    """Catches an error in mid-translation, five letters instead of one, and a lone surrogate as a
    piece: a translation that no file can hold."""
    (ids,) = KNOWN.encode(["aßa"])
    assert ids[1] == UNK and UNK not in (ids[0], ids[2])
    assert KNOWN.decode(ids) == "a\ufffda"
    lone = CharacterTokenizer.train(["a\ud83d", "\ude00"])
    assert lone.vocab_size == NUM_SPECIAL + 2
    assert lone.decode(lone.encode(["\ud83d"])[0]) == "\ufffd"


def test_ready_made_pieces():
    """Catches joins across words, the vocabulary's order, and new pieces without an id."""
    tokenizer = PiecesTokenizer.train(["a@@ b c", "c d@@ e"], "@@")
    assert tokenizer.pieces(range(NUM_SPECIAL, tokenizer.vocab_size)) == [
        *("c", "a@@", "b", "d@@", "e")
    ]
    assert tokenizer.decode(tokenizer.encode(["a@@ b  c d@@ e"])[0]) == "ab c de"
    assert tokenizer.decode(tokenizer.encode(["c a@@"])[0]) == "c a"
    assert tokenizer.encode(["c new"]) == [[NUM_SPECIAL, UNK, EOS]]
    assert tokenizer.decode([UNK, NUM_SPECIAL, EOS, NUM_SPECIAL]) == "<unk> c"
    assert tokenizer.join_pieces("x@@ y @@ z") == "xy z"
    assert PiecesTokenizer.train(["a@@ b"], "").join_pieces("a@@ b") == "a@@ b"


def in_transformers(kind, folder, pieces, models, **options):
    """The tokenizer of the library transformers that a folder with these files gives."""
    transformers = pytest.importorskip("transformers")
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    for name, model in models.items():
        (folder / name).write_bytes(model)
    return getattr(transformers, f"{kind}Tokenizer").from_pretrained(folder, **options)


def test_marian_and_m2m100_have_the_ids_of_transformers(tmp_path):
    """Catches another vocabulary for one side, another treatment of spaces and languages, a
    language at the wrong end, and pieces that are one id off."""
    pieces = ["</s>", "<unk>", *UNION, ">>fra<<", ">>zho_Hant<<", "<pad>"]
    models = {"source.spm": MODELS[0], "target.spm": MODELS[1]}
    marian = in_transformers("Marian", tmp_path, pieces, models)
    pad = len(pieces) - 1
    special = SpecialIds(pad, pad, 0, 1, 1)
    source, target = (PieceListTokenizer(model, pieces, special=special) for model in MODELS)
    for text in [*ENGLISH, *GERMAN, *HARD, *LANGUAGES]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert inputs == marian(text).input_ids, text
        assert targets == marian(text_target=text).input_ids, text
        for ids in (inputs, targets):
            options = dict(skip_special_tokens=True, use_source_tokenizer=False)
            assert target.decode(ids) == marian.decode(ids, **options), text

    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(MODELS[1])]
    models = {"sentencepiece.bpe.model": MODELS[1]}
    m2m = in_transformers("M2M100", tmp_path, pieces, models, src_lang="en", tgt_lang="de")
    numbered = sorted(m2m.lang_code_to_id.items(), key=lambda language: language[1])
    pieces += [f"__{code}__" for code, _ in numbered]
    special = SpecialIds(1, 2, 2, 3, 3)
    source, target = (
        PieceListTokenizer(MODELS[1], pieces, [first], special) for first in ("__en__", "__de__")
    )
    for text in [*ENGLISH, *GERMAN, *HARD]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert inputs == m2m(text).input_ids, text
        assert targets == m2m(text_target=text).input_ids, text
        back = m2m.decode(inputs[1:], skip_special_tokens=True)
        assert source.decode(inputs) == back.replace("▁", " ").strip(), text
