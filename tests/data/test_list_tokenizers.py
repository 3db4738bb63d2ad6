"""lists.py: the ids and texts of characters, ready-made pieces, and imported translation models."""

import io
import json
import random

import pytest
import sentencepiece

from tests.helpers.control_ids import BOS, EOS, PAD, UNK
from transformer.data.tokenizers.lists import (
    CharacterTokenizer,
    PieceListTokenizer,
    PiecesTokenizer,
)
from transformer.special_tokens import NUM_SPECIAL, SpecialIds

ENGLISH = [f"The cat no. {i} sat on the mat, isn't it?" for i in range(200)]
GERMAN = [f"Die Katze Nr. {i} saß auf der Matte, über {i % 7} Mäusen." for i in range(200)]
CONTROL = ["<pad>", "<s>", "</s>", "<unk>"]
ODD = SpecialIds(pad=11, bos=11, eos=0, unk=1, mask=1)  # of the list below, in which <pad> is last
HARD = [
    *("", " ", "  The   cat  ", "The\tcat\u00a0sat", "a▁cat ▁ sat▁", "▁"),
    *("ﬁne ① Ⅳ ½", "e\u0301le\u0300ve", "\u200bcat\u200d", "\ufeffcat", "The cat\n"),
    *(">>fra<<", ">>", "<<", "> >fra<< cat", "THE CAT", "ß", "isn't", "it ?", "“cat”", "_ _", "__"),
    *("日本 cat 日 本", "😀😀 cat😀", "x\x00y", "...!!"),
]  # fmt: skip
LANGUAGES = [">>fra<<The cat", ">>fra<< The cat", ">>zho_Hant<<  cat", " >>fra<< The cat"]


def trained(text, size=70, **options):
    """A small SentencePiece model with the control ids of its own default: unk 0, bos 1, eos 2."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=size, minloglevel=2,
        num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()


def pieces_of(model):
    """The pieces of a model without its control ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]


@pytest.fixture(scope="module")
def english():
    return trained(ENGLISH, hard_vocab_limit=False)


@pytest.fixture(scope="module")
def german():
    return trained(GERMAN, model_type="bpe", size=60)


@pytest.fixture(scope="module")
def marian(english, german):
    """(source, target) tokenizers of one list, whose order is that of neither model."""
    union = sorted({*pieces_of(english), *pieces_of(german)}, key=lambda piece: piece[::-1])
    pieces = [*CONTROL, *union, ">>fra<<", ">>zho_Hant<<"]
    return PieceListTokenizer(english, pieces), PieceListTokenizer(german, pieces)


def test_the_model_splits_and_the_list_numbers(marian, english):
    """Catches the ids of the SentencePiece model, whose order is another."""
    tokenizer = marian[0]
    processor = sentencepiece.SentencePieceProcessor(model_proto=english)
    for text, ids in zip(ENGLISH, tokenizer.encode(ENGLISH), strict=True):
        assert tokenizer.pieces(ids) == [*processor.encode(text, out_type=str), "</s>"]
        assert tokenizer.decode(ids) == tokenizer.join_pieces(text) == text
    assert tokenizer.encode(["", " "]) == [[EOS], [EOS]]
    with pytest.raises(ValueError, match="not a single one"):
        tokenizer.encode("text")


def test_a_side_decodes_pieces_of_the_other(marian):
    """Catches "▁" in texts whose pieces the target's model does not know."""
    source, target = marian
    assert target.decode(source.encode(["The cat isn't"])[0]) == "The cat isn't"


def test_a_language_in_the_list_is_one_token_at_the_beginning(marian):
    """Catches a language that is split, one that is lost from the rest, and one amid the text."""
    tokenizer = marian[0]
    fra, cat = tokenizer.vocab_size - 2, tokenizer.encode(["The cat"])[0]
    for text in (">>fra<<The cat", ">>fra<< The cat", ">>fra<<   The cat"):
        assert tokenizer.encode([text]) == [[fra, *cat]]
    assert tokenizer.encode([">>fra<<"]) == [[fra, EOS]]
    for text in ("The >>fra<< cat", " >>fra<< The cat", ">>deu<< The cat", ">> The << cat"):
        assert fra not in tokenizer.encode([text])[0]
    assert tokenizer.decode(tokenizer.encode([">>fra<< The cat"])[0]) == ">>fra<< The cat"


@pytest.mark.parametrize(("own", "other"), [("__de__", "__fr__"), ("deu_Latn", "fra_Latn")])
def test_texts_begin_with_their_language(german, own, other):
    """Catches a target whose language the search does not force, and languages in translations."""
    tokenizer = PieceListTokenizer(german, [*CONTROL, *pieces_of(german), other, own], [own])
    first, second = tokenizer.vocab_size - 1, tokenizer.vocab_size - 2
    katze = PieceListTokenizer(german, [*CONTROL, *pieces_of(german)]).encode(["Die Katze"])[0]
    assert tokenizer.encode(["", "Die Katze", f"{other} Die Katze"]) == [
        [first, EOS], [first, *katze], [second, *katze]
    ]  # fmt: skip
    assert tokenizer.decode([first, *katze[:-1], second, *katze]) == "Die Katze Die Katze"
    with pytest.raises(ValueError, match="no piece '__xx__'"):
        PieceListTokenizer(german, [*CONTROL, "a"], ["__xx__"])


def test_no_text_becomes_a_control_id(english, german):
    """Catches "</s>" in a text that ends it, also where a model knows no "<" and takes it whole."""
    spelled = trained([*ENGLISH, *CONTROL * 50], size=75, hard_vocab_limit=False)
    for model in (english, german, spelled):
        pieces = [*CONTROL, *pieces_of(model)]
        tokenizer = PieceListTokenizer(model, list(dict.fromkeys(pieces)))
        for text in (*CONTROL, *(f"cat {control} {control}cat" for control in CONTROL)):
            assert not {PAD, BOS, EOS} & set(tokenizer.encode([text])[0][:-1]), text


def test_what_is_unknown_is_one_token_and_no_text(marian):
    """Catches an error on an emoji or half of one, and "⁇" in a translation."""
    tokenizer = marian[0]
    ids = tokenizer.encode(["cat 😀😀", "cat \ud83d"])
    assert ids[0].count(UNK) == 1  # the model's normalisation drops U+FFFD
    assert [tokenizer.decode(sentence) for sentence in ids] == ["cat", "cat"]
    assert tokenizer.decode([BOS, PAD, *ids[0], *ids[1]]) == "cat" and tokenizer.decode([]) == ""


def test_it_survives_bytes(marian, german):
    """Catches a piece that the file changes, such as a byte order mark or a line separator."""
    odd = ["\ufeff", "\x85", "\u2028", "a\nb", '"', "\\", "\x7f", "ﬁ"]
    foreign = PieceListTokenizer(
        german, ["</s>", "<unk>", *odd, "__de__", "<pad>"], ["__de__"], ODD
    )
    for before in (*marian, foreign):
        after = PieceListTokenizer.from_bytes(before.to_bytes())
        assert after.pieces(range(after.vocab_size)) == before.pieces(range(before.vocab_size))
        assert after.encode([*GERMAN, ""]) == before.encode([*GERMAN, ""])
        assert after.to_bytes() == before.to_bytes() and after.special == before.special


def test_damaged_files_are_refused(marian):
    """Catches a stack trace, and ids that two pieces share."""
    whole = json.loads(marian[0].to_bytes())
    damages = [
        {"pieces": [*whole["pieces"], whole["pieces"][-1]]}, {"pieces": CONTROL},
        {"pieces": "abcd"}, {"pieces": [1, 2, 3, 4, 5]}, {"first": ["no"]}, {"first": None},
        {"model": ""}, {"model": 3}, {"model": "!"}, {"model": whole["model"][:400]},
    ]  # fmt: skip
    files = [json.dumps(whole | damage).encode() for damage in damages]
    files += [b"", b"[]", b"3", b"\xff", b"[" * 100_000, marian[0].to_bytes()[:-9]]
    for data in files:
        with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
            PieceListTokenizer.from_bytes(data)


# ---- characters, and ready-made pieces

CHARACTERS = ["dé ja  vu ", "a\tb\nc\rd\u2028e\x85f", "日本\U0001f600", "<s>", ""]


@pytest.fixture(scope="module")
def characters():
    return CharacterTokenizer.train(CHARACTERS)


def test_text_of_known_characters_comes_back_exactly(characters):
    """Catches spaces that are joined or stripped, and normalisation."""
    rng = random.Random(0)
    known = sorted(set("".join(CHARACTERS)))
    texts = CHARACTERS + ["".join(rng.choices(known, k=rng.randrange(20))) for _ in range(200)]
    for text, ids in zip(texts, characters.encode(texts), strict=True):
        assert len(ids) == len(text) + 1 and ids[-1] == EOS
        assert characters.decode(ids) == characters.join_pieces(text) == text


def test_ids_of_characters_are_dense_and_those_of_control_are_no_text(characters):
    """Catches an id beyond the embedding table, and "</s>" in a text that ends it."""
    ids = {i for sentence in characters.encode(CHARACTERS) for i in sentence[:-1]}
    assert ids == set(range(NUM_SPECIAL, characters.vocab_size))
    assert len(characters.encode(["<s>"])[0]) == 4
    assert characters.pieces([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", "<unk>"]
    assert characters.pieces(characters.encode(["a b"])[0]) == ["a", " ", "b", "</s>"]


def test_new_characters_are_unknown_and_one_each(characters):
    """Catches an error in mid-translation, and five letters instead of one."""
    (ids,) = characters.encode(["aßa"])
    assert ids[1] == UNK and UNK not in (ids[0], ids[2])
    assert characters.decode(ids) == "a\ufffda"


def test_a_lone_surrogate_is_no_piece():
    """Catches a vocabulary, and then a translation, that no file can hold."""
    characters = CharacterTokenizer.train(["a\ud83d", "\ude00"])
    assert characters.vocab_size == NUM_SPECIAL + 2
    assert characters.decode(characters.encode(["\ud83d"])[0]) == "\ufffd"


def test_characters_survive_bytes_and_depends_on_no_order(characters):
    """Catches line breaks that split the file, and a set's order, which changes between starts."""
    again = CharacterTokenizer.from_bytes(characters.to_bytes())
    assert again.pieces(range(again.vocab_size)) == characters.pieces(range(characters.vocab_size))
    assert CharacterTokenizer.train(CHARACTERS[::-1]).to_bytes() == characters.to_bytes()
    everything = [chr(i) for i in (*range(0xD800), *range(0xE000, 0x11000))]
    every = CharacterTokenizer.train(everything)
    assert CharacterTokenizer.from_bytes(every.to_bytes()).encode(everything) == [
        [i, EOS] for i in range(NUM_SPECIAL, every.vocab_size)
    ]


BAD = [b"", b"[]", b"{}", b'"ab"', b'["a", "a"]', b'["ab"]', b'["a", 1]', b'["a",', b"\xff"]


@pytest.mark.parametrize("data", [*BAD, b"[" * 100_000], ids=lambda data: repr(data[:12]))
def test_damaged_characters_are_refused(data):
    """Catches ids that two characters share, and a stack trace."""
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):
        CharacterTokenizer.from_bytes(data)


@pytest.mark.parametrize("text", [[], ["", ""]])
def test_no_text_no_tokenizer(text):
    """Catches a run that learns to say nothing."""
    with pytest.raises(ValueError, match="cannot be trained"):
        CharacterTokenizer.train(text)


def test_ready_made_pieces():
    """Catches joins across words, the vocabulary's order, and new pieces without an id."""
    tokenizer = PiecesTokenizer.train(["a@@ b c", "c d@@ e"], "@@")
    assert tokenizer.pieces(range(tokenizer.vocab_size))[NUM_SPECIAL:] == [
        *("c", "a@@", "b", "d@@", "e")
    ]
    assert tokenizer.decode(tokenizer.encode(["a@@ b  c d@@ e"])[0]) == "ab c de"
    assert tokenizer.decode(tokenizer.encode(["c a@@"])[0]) == "c a"
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


# ---- beside transformers, where it is installed


def test_marian_has_the_ids_of_transformers(english, german, tmp_path):
    """Catches another vocabulary for one side, and another treatment of spaces and languages."""
    transformers = pytest.importorskip("transformers")
    union = list(dict.fromkeys([*pieces_of(english), *pieces_of(german)]))
    pieces = ["</s>", "<unk>", *union, ">>fra<<", ">>zho_Hant<<", "<pad>"]
    (tmp_path / "source.spm").write_bytes(english)
    (tmp_path / "target.spm").write_bytes(german)
    vocabulary = json.dumps({piece: i for i, piece in enumerate(pieces)})
    (tmp_path / "vocab.json").write_text(vocabulary)
    reference = transformers.MarianTokenizer.from_pretrained(tmp_path)
    pad = len(pieces) - 1
    special = SpecialIds(pad, pad, 0, 1, 1)
    source, target = (PieceListTokenizer(m, pieces, special=special) for m in (english, german))
    for text in [*ENGLISH, *GERMAN, *HARD, *LANGUAGES]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert inputs == reference(text).input_ids, text
        assert targets == reference(text_target=text).input_ids, text
        for ids in (inputs, targets):
            options = dict(skip_special_tokens=True, use_source_tokenizer=False)
            assert target.decode(ids) == reference.decode(ids, **options), text


def test_m2m100_has_the_ids_of_transformers(german, tmp_path):
    """Catches a language at the wrong end, and pieces that are one id off."""
    transformers = pytest.importorskip("transformers")
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(german)]
    (tmp_path / "sentencepiece.bpe.model").write_bytes(german)
    vocabulary = json.dumps({piece: i for i, piece in enumerate(pieces)})
    (tmp_path / "vocab.json").write_text(vocabulary)
    reference = transformers.M2M100Tokenizer.from_pretrained(tmp_path, src_lang="en", tgt_lang="de")
    numbered = sorted(reference.lang_code_to_id.items(), key=lambda language: language[1])
    pieces += [f"__{code}__" for code, _ in numbered]
    special = SpecialIds(1, 2, 2, 3, 3)
    source, target = (
        PieceListTokenizer(german, pieces, [first], special) for first in ("__en__", "__de__")
    )
    for text in [*ENGLISH, *GERMAN, *HARD]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert inputs == reference(text).input_ids, text
        assert targets == reference(text_target=text).input_ids, text
        back = reference.decode(inputs[1:], skip_special_tokens=True)
        assert source.decode(inputs) == back.replace("▁", " ").strip(), text
