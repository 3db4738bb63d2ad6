"""piece_list_tokenizer.py: the ids and texts of Marian, M2M100, NLLB and mBART."""

import io
import json

import pytest
import sentencepiece

from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.special_tokens import BOS, EOS, PAD, UNK

ENGLISH = [f"The cat no. {i} sat on the mat, isn't it?" for i in range(200)]
GERMAN = [f"Die Katze Nr. {i} saß auf der Matte, über {i % 7} Mäusen." for i in range(200)]
CONTROL = ["<pad>", "<s>", "</s>", "<unk>"]
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
    for before in (*marian, PieceListTokenizer(german, [*CONTROL, *odd, "__de__"], ["__de__"])):
        after = PieceListTokenizer.from_bytes(before.to_bytes())
        assert after.pieces(range(after.vocab_size)) == before.pieces(range(before.vocab_size))
        assert after.encode([*GERMAN, ""]) == before.encode([*GERMAN, ""])
        assert after.to_bytes() == before.to_bytes()


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


# ---- beside transformers, where it is installed


def test_marian_has_the_ids_of_transformers(english, german, tmp_path):
    """Catches another vocabulary for one side, and another treatment of spaces and languages."""
    transformers = pytest.importorskip("transformers")
    union = list(dict.fromkeys([*pieces_of(english), *pieces_of(german)]))
    theirs = ["</s>", "<unk>", *union, ">>fra<<", ">>zho_Hant<<", "<pad>"]
    (tmp_path / "source.spm").write_bytes(english)
    (tmp_path / "target.spm").write_bytes(german)
    vocabulary = json.dumps({piece: i for i, piece in enumerate(theirs)})
    (tmp_path / "vocab.json").write_text(vocabulary)
    reference = transformers.MarianTokenizer.from_pretrained(tmp_path)
    ours = [*CONTROL, *theirs[2:-1]]
    source, target = (PieceListTokenizer(model, ours) for model in (english, german))
    order = [-1 if piece == "<s>" else theirs.index(piece) for piece in ours]
    for text in [*ENGLISH, *GERMAN, *HARD, *LANGUAGES]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert [order[i] for i in inputs] == reference(text).input_ids, text
        assert [order[i] for i in targets] == reference(text_target=text).input_ids, text
        for ids in (inputs, targets):
            back = reference.decode(
                [order[i] for i in ids], skip_special_tokens=True, use_source_tokenizer=False
            )
            assert target.decode(ids) == back, text


def test_m2m100_has_the_ids_of_transformers(german, tmp_path):
    """Catches a language at the wrong end, and pieces that are one id off."""
    transformers = pytest.importorskip("transformers")
    theirs = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(german)]
    (tmp_path / "sentencepiece.bpe.model").write_bytes(german)
    vocabulary = json.dumps({piece: i for i, piece in enumerate(theirs)})
    (tmp_path / "vocab.json").write_text(vocabulary)
    reference = transformers.M2M100Tokenizer.from_pretrained(tmp_path, src_lang="en", tgt_lang="de")
    languages = [f"__{code}__" for code in reference.lang_code_to_id]
    ours = [*CONTROL, *theirs[4:], *languages]
    order = [*(theirs.index(piece) for piece in ours[: -len(languages)])]
    order += reference.lang_code_to_id.values()
    source = PieceListTokenizer(german, ours, ["__en__"])
    target = PieceListTokenizer(german, ours, ["__de__"])
    for text in [*ENGLISH, *GERMAN, *HARD]:
        (inputs,), (targets,) = source.encode([text]), target.encode([text])
        assert [order[i] for i in inputs] == reference(text).input_ids, text
        assert [order[i] for i in targets] == reference(text_target=text).input_ids, text
        back = reference.decode([order[i] for i in inputs[1:]], skip_special_tokens=True)
        assert source.decode(inputs) == back.replace("▁", " ").strip(), text
