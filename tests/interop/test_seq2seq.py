"""Marian, M2M100, NLLB and mBART-50 as transformers wrote them: golden folders, without torch."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.helpers.imported import GOLDEN, as_run, build, changed_folder
from tests.helpers.rings import others_long
from tools.golden_translation import EXTRA, LANGUAGES, MODELS, SENTENCES, TRANSLATIONS
from transformer.inference.translator import Translator
from transformer.interop.huggingface.seq2seq import read_seq2seq

MARIAN = GOLDEN / "marianmt_shared"
M2M100 = GOLDEN / "m2m100"


@pytest.fixture(scope="module", params=others_long(MODELS, "marianmt_shared"))
def golden(request):
    """(name, the imported model, the arrays that transformers computed)."""
    folder, languages = GOLDEN / request.param, LANGUAGES.get(request.param, ("", ""))
    with np.load(folder / "expected.npz") as file:
        return request.param, read_seq2seq(folder, *languages), dict(file)


def test_text_has_their_ids(golden):
    """Catches a language at the wrong place, and a list of pieces that is one id off."""
    name, imported, expected = golden
    pad = json.loads((GOLDEN / name / "config.json").read_text())["pad_token_id"]
    pairs = ("inputs", SENTENCES), ("targets", TRANSLATIONS)
    for tokenizer, (part, texts) in zip(imported.tokenizers, pairs, strict=True):
        rows = expected[part].tolist()
        assert tokenizer.encode(texts) == [[i for i in row if i != pad] for row in rows]


def test_logits_are_theirs(golden):
    """Catches a wrong activation, epsilon, position, bias or order of columns."""
    _, imported, expected = golden
    model, params = build(imported)
    special = imported.tokenizers[1].special
    texts = SENTENCES[1], TRANSLATIONS[1]
    ids = [np.array(t.encode([text])) for t, text in zip(imported.tokenizers, texts, strict=True)]
    logits = np.asarray(model.apply({"params": params}, *ids, deterministic=True))[0]
    seen = logits[0] > -1e3  # others are silenced: what no search may find
    assert set(np.flatnonzero(~seen)) == {special.bos} - {special.eos}
    theirs = expected["logits"][0, : len(logits)]
    np.testing.assert_allclose(logits[:, seen], theirs[:, seen], atol=1e-4)


def test_translations_are_theirs(golden):
    """Catches a search that begins, ends or scores otherwise, and another text of the same ids."""
    name, imported, _ = golden
    width = 4 if name in ("marianmt_shared", "m2m100") else 1  # greedy search compiles faster
    imported.config.decoding.batch_size = 4
    expected = json.loads((GOLDEN / name / "expected.json").read_text())[str(width)]
    translator = Translator(as_run(imported))
    found = translator.translate(SENTENCES, beam_size=width, max_extra_length=EXTRA)
    assert [translation.ids for translation in found] == expected["ids"]
    assert [translation.text for translation in found] == expected["texts"]
    if expected["scores"]:
        scores = [translation.score for translation in found]
        np.testing.assert_allclose(scores, expected["scores"], atol=1e-4)


def test_a_score_leaves_out_the_language():
    """Catches a score of a translation that is another one than the search gives it."""
    imported = read_seq2seq(M2M100, *LANGUAGES["m2m100"])
    translator = Translator(as_run(imported))
    pair = SENTENCES[:1], TRANSLATIONS[:1]
    (scored,), log_probs = translator.score(*pair), translator.log_probs(*pair).values[0]
    np.testing.assert_allclose(scored.log_prob, log_probs[1:].sum(), rtol=1e-5)
    np.testing.assert_allclose(scored.score, scored.log_prob / len(log_probs), rtol=1e-5)


def test_the_configuration_says_how_they_search():
    """Catches our own length penalty, and beams that nobody asked for."""
    config = read_seq2seq(MARIAN).config
    assert (config.decoding.beam_size, config.decoding.alpha) == (4, 1.0)
    assert (config.decoding.length_penalty, config.data.row_length) == ("power", 64)
    assert (config.data.source_language, config.data.target_language) == ("en", "de")


# ---- other forms of the same model

TENSORS = load_file(MARIAN / "model.safetensors")
TABLE = TENSORS["model.shared.weight"]


def logits_of(folder):
    model, params = build(read_seq2seq(folder))
    ids = np.array([[5, 6, 7, model.special.eos]])
    return np.asarray(model.apply({"params": params}, ids, ids, deterministic=True))


def half_sinusoids(length, width):
    angles = np.arange(length)[:, None] * 1e4 ** -(np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


POSITIONS = [f"model.{stack}coder.embed_positions.weight" for stack in ("en", "de")]


@pytest.mark.parametrize(
    "options",
    [
        {"rename": lambda name: name.replace("model.shared", "lm_head")},
        {"rename": lambda name: name.replace("model.shared", "model.decoder.embed_tokens")},
        {"add": {"lm_head.weight": TABLE}, "decoder_vocab_size": None},
        {"add": dict.fromkeys(POSITIONS, half_sinusoids(64, 16).astype(np.float16))},
        {"eos_token_id": [0]},
    ],
)
def test_a_file_may_hold_the_same_otherwise(tmp_path, options):
    """Catches a folder of another version of transformers that is refused."""
    folder = changed_folder(MARIAN, tmp_path / "folder", **options)
    np.testing.assert_array_equal(logits_of(folder), logits_of(MARIAN))


def test_positions_in_the_file(tmp_path):
    """Catches positions of a file that are dropped although they are others."""
    table = half_sinusoids(64, 16)[::-1].copy()
    folder = changed_folder(MARIAN, tmp_path / "a", add=dict.fromkeys(POSITIONS, table))
    imported = read_seq2seq(folder)
    assert imported.config.model.positions == "learned"
    np.testing.assert_array_equal(imported.params["source_positions/table"], table)
    build(imported)


def test_a_softmax_of_its_own(tmp_path):
    """Catches tables that are taken for one though the model was trained with several."""
    other = {"lm_head.weight": TABLE[::-1].copy()}
    folder = changed_folder(MARIAN, tmp_path / "a", add=other, tie_word_embeddings=False)
    imported = read_seq2seq(folder)
    assert imported.config.model.embedding_sharing == "none"
    build(imported)
    columns = np.arange(16).reshape(2, 8).T.ravel()
    np.testing.assert_array_equal(imported.params["softmax/table"], TABLE[::-1][:, columns])


# ---- refusals, a sentence each


def refusal(folder, *languages):
    with pytest.raises(ValueError, match=r"^[^\n]*[.…?]$") as caught:
        read_seq2seq(folder, *languages)
    return str(caught.value)


def test_all_settings_that_have_no_counterpart_are_named(tmp_path):
    """Catches a model that computes something else, and one error after another."""
    settings = dict(activation_function="tanh", decoder_ffn_dim=7, decoder_attention_heads=1)
    settings["quantization_config"] = {"bits": 8}
    said = refusal(changed_folder(MARIAN, tmp_path / "a", **settings))
    assert all(f"{name}={value!r}" in said for name, value in settings.items())


def with_vocabulary(folder, change, **changes):
    """A copy of the folder whose vocab.json is what `change` makes of {piece: id}."""
    folder = changed_folder(MARIAN, folder, **changes)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "vocab.json").write_text(json.dumps(change(vocabulary)))
    return folder


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"drop": ("d_model",)}, "config.json lacks a positive number as d_model"),
        ({"eos_token_id": [0, 1]}, "lacks the number eos_token_id"),
        ({"d_model": 32}, "does not fit d_model=32"),
        ({"pad_token_id": -1}, "do not fit: pad_token_id=-1"),
        ({"length_penalty": "x"}, "length_penalty must be a number, not 'x'"),
        ({"bad_words_ids": "x"}, "bad_words_ids must list ids from 0 to 56, not 'x'"),
        ({"bad_words_ids": [[57]]}, "bad_words_ids must list ids from 0 to 56, not [[57]]"),
        (
            {"add": {"lm_head.weight": TABLE + 1}},
            "model.shared.weight is lm_head.weight, but they differ",
        ),
        (lambda ids: {p: i for i, p in enumerate(p for p in ids if p != "t")}, "pad_token_id=56"),
        (lambda ids: ids | {"new": len(ids)}, "has 58 pieces, the model rows for 57"),
        (lambda ids: ids | {"</s>": 3, "t": 0}, "do not fit: pad_token_id=56"),
        (lambda ids: ids | {"t": 0}, "does not number pieces"),
        (lambda ids: {p: i for p, i in ids.items() if p != "<unk>"}, "no piece <unk>"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, changes, expected):
    """Catches Python's words for a damaged setting, and rows that get the pieces of others."""
    change, settings = (changes, {}) if callable(changes) else (dict, changes)
    folder = with_vocabulary(tmp_path / "a", change, **settings)
    (folder / "generation_config.json").unlink()
    assert expected in refusal(folder)


@pytest.mark.parametrize("file", ["target.spm", "vocab.json", "model.safetensors", "config.json"])
def test_a_missing_or_damaged_file_is_named(tmp_path, file):
    """Catches a stack trace for half a download."""
    folder = changed_folder(MARIAN, tmp_path / "a")
    (folder / file).write_bytes((folder / file).read_bytes()[:-2])
    assert file in refusal(folder)
    (folder / file).unlink()
    assert file in refusal(folder)


@pytest.mark.parametrize(
    "name, languages, expected",
    [
        ("m2m100", ("", "de"), "source_language, one of its 100 languages: af, am, ar, ast, …"),
        ("m2m100", ("en", "ger"), "target_language=ger is none of the 100 languages"),
        ("nllb", ("eng_Latn", "de"), "did you mean deu_Latn?"),
        ("mbart", ("en", "de_DE"), "did you mean en_XX?"),
    ],
)
def test_a_language_must_be_one_of_the_model(name, languages, expected):
    """Catches a model that is asked for a language by a name that it does not have."""
    assert expected in refusal(GOLDEN / name, *languages)


def pieces_and_rows(imported):
    tokenizer = imported.tokenizers[0]
    rows = imported.params["shared_embedding/table"].tolist()
    return [*zip(tokenizer.pieces(range(tokenizer.vocab_size)), rows, strict=True)]


@pytest.mark.parametrize("name", ["nllb", "mbart"])
def test_ids_are_those_of_the_folder(tmp_path, name):
    """Catches languages that are looked for where fairseq has them, and are elsewhere."""
    expected = pieces_and_rows(read_seq2seq(GOLDEN / name, *LANGUAGES[name]))
    tensors = load_file(GOLDEN / name / "model.safetensors")
    table = tensors["model.shared.weight"]
    order = [0, 1, 2, 3, *reversed(range(4, len(table)))]
    moved = {"model.shared.weight": table[order]}
    if name == "mbart":
        moved["final_logits_bias"] = tensors["final_logits_bias"][:, order]
    folder = changed_folder(GOLDEN / name, tmp_path / "a", add=moved)
    new = [[expected[i][0], 0.0] for i in order]
    if name == "nllb":
        new = {piece: i for i, (piece, _) in enumerate(new)}
    content = {"model": {"vocab": new}, "added_tokens": [{"content": "<pad>", "id": 1}]}
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert sorted(pieces_and_rows(read_seq2seq(folder, *LANGUAGES[name]))) == sorted(expected)

    added = {str(len(order) - 1): {"content": "deu_Latn"}}
    about = json.dumps({"added_tokens_decoder": added})
    (folder / "tokenizer_config.json").write_text(about)
    assert "gives 'deu_Latn' the id" in refusal(folder, *LANGUAGES[name])
    (folder / "tokenizer.json").write_text('{"model": {"vocab": [7]}}')
    assert "tokenizer.json does not number pieces" in refusal(folder, *LANGUAGES[name])


def without_t(ids, instead=()):
    return {piece: i for piece, i in ids.items() if piece != "t"} | dict(instead)


def test_marian_with_several_target_languages(tmp_path):
    """Catches a language that the user has to know of and is not told, or is not put first."""
    folder = with_vocabulary(tmp_path / "a", lambda ids: without_t(ids, {">>fra<<": ids["t"]}))
    assert "begin each sentence with one, as >>fra<<" in read_seq2seq(folder).notes[0]
    source, _ = read_seq2seq(folder, "en", "fra").tokenizers
    assert source.pieces(source.encode(["mat"])[0])[0] == ">>fra<<"
    assert "did you mean fra?" in refusal(folder, "en", "fr")
    folder = with_vocabulary(tmp_path / "b", without_t)  # text that has it is unknown
    assert "no piece for 1 of its ids" in read_seq2seq(folder).notes[0]


def test_what_the_search_does_without_is_said(tmp_path):
    """Catches settings of a search that are dropped without a word, and ones that do nothing."""
    folder = changed_folder(MARIAN, tmp_path / "a")
    search = json.loads((folder / "generation_config.json").read_text())
    search |= {"no_repeat_ngram_size": 3, "length_penalty": -1.0, "bad_words_ids": [[56], [3, 4]]}
    (folder / "generation_config.json").write_text(json.dumps(search | {"min_length": 0}))
    (note,) = read_seq2seq(folder).notes
    assert note.startswith(
        "Not used: no_repeat_ngram_size=3, max_length=512, bad_words_ids of several pieces, "
        "length_penalty=-1.0; here a search is exact, and </s> is forced"
    )
