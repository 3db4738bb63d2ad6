"""huggingface.py, tokens.py: texts get the ids that transformers gives them."""

import json
import sys

import pytest
import tokenizers as library

from transformer.data.tokenizers.files import parse_tokenizers
from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer, train_byte_level
from transformer.files.reading import TransientError
from transformer.interop.huggingface.tokens import (
    BERT,
    END,
    bert_json,
    gpt2_json,
    with_control_tokens,
)
from transformer.special_tokens import NUM_SPECIAL, OWN_IDS, SpecialIds

GPT2 = [END] * 5

VOCAB_TXT = """[PAD] [unused0] [UNK] [CLS] [SEP] [MASK] ! ' , . a b c d e s t u the cat ##s ##t über
uber 日 ##e \u00e9 É""".replace(" ", "\n")
MERGES_TXT = "#version: 0.2\nt h\nth e\nĠ c\na t\nĠc at\n# #\nĊ Ċ\n"
HARD = [
    *("", " ", "  The   cat  ", "The\tcat\u00a0sat", "日本 cat 日 本", "😀😀 cat😀", "ﬁne ① Ⅳ ½"),
    *("e\u0301le\u0300ve ÉLÈVE", "\u200bcat\u200d", "\ufeffcat", "The cat\n", "a\nb\n\n\nc"),
    "\r\n",
    *("x\x00y", "...!!", "isn't it , ' s", "I'll've", "Über ß ç", "\u2028", "x" * 150, "[UNK] a"),
    *("  lead", "tail  ", "ǅ ﬀ İ", "##s", "## cats", "Ġ", "Ċ"),
]  # fmt: skip
SPECIAL = ["[SEP] a", "[CLS]", "[MASK]", "[PAD]", "<|endoftext|>", "<pad>", "<s>", "</s>", "<unk>"]


# A vocab.json of all bytes, the merges above and the end of a text, as GPT-2's.
TOKENS = sorted(library.pre_tokenizers.ByteLevel.alphabet())
TOKENS += [*(line.replace(" ", "") for line in MERGES_TXT.splitlines()[1:]), END]
GPT2_NAMES = "vocab.json", "merges.txt"
GPT2_FILES = json.dumps({token: i for i, token in enumerate(TOKENS)}), MERGES_TXT
UNCASED = with_control_tokens(bert_json(VOCAB_TXT), BERT)
OF_GPT2 = with_control_tokens(gpt2_json(*GPT2_FILES), GPT2)


def pieces(tokenizer, text):
    return tokenizer.pieces(tokenizer.encode([text])[0])


def test_bert_splits_as_transformers():
    """Catches settings of the normalisation that are lost; as transformers 5.23 splits."""
    said = " ".join(pieces(UNCASED, "The cats, ÜBER 日本!"))
    assert said == "[CLS] the cat ##s , uber 日 [UNK] ! [SEP]"
    cased = with_control_tokens(bert_json(VOCAB_TXT, do_lower_case=False), BERT)
    assert pieces(cased, "The Über über É") == [*("[CLS]", "[UNK]", "[UNK]", "über", "É", "[SEP]")]
    text = bert_json(VOCAB_TXT, strip_accents=False, tokenize_chinese_chars=False)
    accents = with_control_tokens(text, BERT)
    assert pieces(accents, "Über 日a É") == ["[CLS]", "über", "[UNK]", "é", "[SEP]"]
    assert UNCASED.decode(UNCASED.encode(["The cats' cat."])[0]) == "the cats ' cat."


def test_gpt2_splits_as_transformers():
    """Catches merges in another order, "# #" taken for a comment, and a space that is added."""
    assert pieces(OF_GPT2, "the cat##\n\n") == [*("the", "Ġcat", "##", "ĊĊ", "<|endoftext|>")]
    spaced = with_control_tokens(gpt2_json(*GPT2_FILES, add_prefix_space=True), GPT2)
    assert pieces(spaced, "cat") == ["Ġcat", "<|endoftext|>"]


def test_ids_are_those_of_the_file():
    """Catches rows of an embedding table that stand for other tokens, and a file that another
    program reads with other ids."""
    assert UNCASED.pieces(range(UNCASED.vocab_size)) == VOCAB_TXT.split("\n")
    assert UNCASED.special == SpecialIds(pad=0, bos=3, eos=4, unk=2, mask=5)
    assert OF_GPT2.pieces(range(OF_GPT2.vocab_size)) == TOKENS
    assert {*OF_GPT2.special} == {OF_GPT2.vocab_size - 1} and OF_GPT2.special.silent == []
    for tokenizer, end in ((UNCASED, []), (OF_GPT2, [OF_GPT2.special.eos])):
        other = library.Tokenizer.from_str(tokenizer.text)
        assert [[*other.encode(text).ids, *end] for text in HARD] == tokenizer.encode(HARD)


def test_gpt2_gives_texts_back_with_their_line_breaks():
    """Catches lines that are joined, and a control token in a continuation."""
    assert OF_GPT2.line_breaks_are_text and not UNCASED.line_breaks_are_text
    for text in HARD + SPECIAL:
        assert OF_GPT2.decode(OF_GPT2.encode([text])[0]) == text == OF_GPT2.join_pieces(text)
    assert OF_GPT2.decode(OF_GPT2.encode(["\ud83d"])[0]) == "\ufffd"
    (ids,) = UNCASED.encode(["the cat"])
    assert UNCASED.decode([*ids[:-1], UNCASED.special.mask]) == "the cat"


def test_added_tokens_and_other_settings_of_a_file():
    """Catches an added token with an id of its own, and files that cut or pad every text."""
    other_order = VOCAB_TXT.replace("\n[MASK]", "").replace("\nthe", "\n[MASK]\nthe")
    foreign = library.Tokenizer.from_str(bert_json(other_order))
    foreign.add_tokens(["<new>"])
    foreign.add_special_tokens(["<user>"])
    foreign.enable_truncation(4)
    foreign.enable_padding(length=9)
    ends = [(name, foreign.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    foreign.post_processor = library.processors.BertProcessing(*ends)
    tokenizer = with_control_tokens(foreign.to_str(), BERT)
    said = " ".join(pieces(tokenizer, "the cat<new> the <user>cats"))
    assert said == "[CLS] the cat <new> the <user> cat ##s [SEP]"
    assert tokenizer.pieces(range(tokenizer.vocab_size))[-2:] == ["<new>", "<user>"]
    untyped = json.loads(bert_json(VOCAB_TXT))
    del untyped["model"]["type"]  # as files of before 2021
    assert with_control_tokens(json.dumps(untyped), BERT).encode(HARD) == UNCASED.encode(HARD)


def test_what_is_no_such_file_is_refused_in_one_sentence():
    """Catches a stack trace of Rust, and ids that are not ours."""
    unigram = library.Tokenizer(library.models.Unigram([("a", 0.0)], 0)).to_str()
    with pytest.raises(ValueError, match=r"^[^\n]*not Unigram[^\n]*\.$"):
        with_control_tokens(unigram, BERT)
    with pytest.raises(ValueError, match=r"^The vocabulary lacks \[PAD\], [^\n]*\.$"):
        with_control_tokens(gpt2_json(*GPT2_FILES), BERT)
    with pytest.raises(ValueError, match=r"^vocab.txt lacks \[PAD\], [^\n]*\.$"):
        bert_json("a\nb\n")
    for files in (("{", MERGES_TXT), (GPT2_FILES[0], "no merge"), (GPT2_FILES[0], "a b c")):
        with pytest.raises(ValueError, match=r"^vocab.json and merges.txt [^\n]*\.$"):
            gpt2_json(*files)
    with pytest.raises(ValueError, match=r"^[^\n]*\.$"):  # other ids around a text
        HuggingFaceTokenizer.from_bytes(bert_json(VOCAB_TXT).encode())


def test_without_the_library_the_extra_is_named(monkeypatch):
    """Catches an import error, which does not say what to install."""
    files = {"tokenizer.json": UNCASED.to_bytes()}
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TransientError, match=r"^This needs tokenizers: pip install [^\n]*interop"):
        parse_tokenizers(files, "run")


OF_TRANSFORMERS = [
    ("Bert", {}),
    ("Bert", {"do_lower_case": False}),
    ("Bert", {"strip_accents": False}),
]
OF_TRANSFORMERS += [("GPT2", {"add_prefix_space": value}) for value in (False, True)]


@pytest.mark.parametrize(("kind", "options"), OF_TRANSFORMERS)
def test_ids_and_texts_are_those_of_transformers(kind, options, tmp_path):
    """Catches another vocabulary, other merges, another treatment of spaces, accents and unknown
    text, and a text that is tidied."""
    transformers = pytest.importorskip("transformers")
    files, make, names = {"vocab.txt": VOCAB_TXT}, bert_json, BERT
    if kind == "GPT2":
        files, make, names = dict(zip(GPT2_NAMES, GPT2_FILES, strict=True)), gpt2_json, GPT2
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    reference = getattr(transformers, f"{kind}Tokenizer").from_pretrained(tmp_path, **options)
    ours = {name.replace("do_lower_case", "lowercase"): value for name, value in options.items()}
    tokenizer = with_control_tokens(make(*files.values(), **ours), names)
    reference.save_pretrained(tmp_path / "saved")
    saved = with_control_tokens((tmp_path / "saved" / "tokenizer.json").read_text(), names)
    assert saved.encode(HARD) == tokenizer.encode(HARD)
    for text, ids in zip(HARD, tokenizer.encode(HARD), strict=True):
        assert ids == [*reference(text).input_ids, *ids[-1:] * (kind == "GPT2")], text
        assert kind == "Bert" or tokenizer.decode(ids) == reference.decode(ids[:-1]), text


def test_a_byte_level_vocabulary_is_learnt():
    """Catches bytes without a token, a vocabulary of another size, and control ids in texts."""
    texts = ["the water of the river", "the river of the north"] * 9
    tokenizer = train_byte_level(texts, 270)
    assert tokenizer.vocab_size == 270 and tokenizer.special == OWN_IDS
    assert tokenizer.pieces(range(5)) == ["<pad>", "<s>", END, "<unk>", "!"]
    strange = "the river\nÜ 漢 <|endoftext|> <unk>"
    (ids,), (known,) = tokenizer.encode([strange]), tokenizer.encode(["the river"])
    assert tokenizer.decode(ids) == strange and min(ids[:-1]) >= NUM_SPECIAL
    assert len(known) < len("the river")
    with pytest.raises(ValueError, match=r"must be at least 260 with tokenizer\.kind=byte_level"):
        train_byte_level(texts, 259)
