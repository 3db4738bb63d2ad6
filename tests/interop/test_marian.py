"""Packages as Marian writes them, against what Marian itself made of the same text."""

import functools
import io
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
import yaml

from tests.helpers.imported import as_run
from tests.helpers.rings import others_long
from transformer.inference.translator import Translator
from transformer.interop.import_model import read_folder
from transformer.interop.marian import SETTINGS, read_marian, read_vocab_yml

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
NAMES = ["marian_joint", "marian_pieces", "marian_pre_norm", "marian_separate"]
MODEL = "opus.npz.best-perplexity.npz"


def expected(name):
    return json.loads((GOLDEN / name / "expected.json").read_text())


@functools.cache
def translator_of(name):
    model = read_marian(GOLDEN / name)
    return Translator(as_run(model), jax.local_devices()[:1])


def pieces_of(tokenizer, text):
    """Marian's pieces of a text, with UNK for those that the vocabulary lacks."""
    known = {*tokenizer.pieces(range(tokenizer.vocab_size))}
    return [piece if piece in known else "<unk>" for piece in text.split(" ")]


def copy_package(folder, name="marian_pieces", settings=None, tensors=None, decoder=None):
    """Writes a golden package with changes: settings, {tensor: array or None}, decoder.yml."""
    shutil.copytree(GOLDEN / name, folder)
    with np.load(folder / MODEL) as archive:
        arrays = dict(archive)
    text = yaml.safe_load(arrays[SETTINGS].tobytes().rstrip(b"\0")) | (settings or {})
    arrays[SETTINGS] = np.frombuffer(yaml.safe_dump(text).encode() + b"\0", np.int8)
    arrays |= tensors or {}
    np.savez(folder / MODEL, **{k: array for k, array in arrays.items() if array is not None})
    found = yaml.safe_load((folder / "decoder.yml").read_text()) | (decoder or {})
    (folder / "decoder.yml").write_text(yaml.safe_dump(found))
    return folder


@pytest.mark.parametrize("name", others_long(NAMES, "marian_joint"))
def test_every_word_has_the_log_probability_that_marian_gives_it(name):
    """Catches other sinusoids, norms, biases or rows, and text that is split otherwise."""
    translator, pairs = translator_of(name), expected(name)["pairs"]
    sources, targets = ([pair[side] for pair in pairs] for side in ("source", "target"))
    found = translator.log_probs(sources, targets)
    for pair, values, mask, pieces in zip(pairs, *found, strict=True):
        assert pieces[:-1] == pieces_of(translator.tokenizer, pair["target_pieces"])
        theirs = np.array(pair["log_probs"].split(), float)
        np.testing.assert_allclose(values[mask], theirs, atol=5e-5)
    source = translator.source_tokenizer
    for pair, ids in zip(pairs, source.encode(sources), strict=True):
        assert source.pieces(ids[:-1]) == pieces_of(source, pair["source_pieces"])


@pytest.mark.long
def test_the_search_finds_what_marian_finds_or_better():
    """Catches another length penalty, beam or end of a hypothesis than decoder.yml asks for."""
    wanted = expected("marian_pieces")
    translator = translator_of("marian_pieces")
    sources = [pair["source"] for pair in wanted["pairs"]][: len(wanted["translations"])]
    num_equal = 0
    for found, theirs in zip(translator.translate(sources), wanted["translations"], strict=True):
        assert found.score > theirs["score"] - 1e-4  # Marian's beam narrows as hypotheses end
        if translator.tokenizer.pieces(found.ids[:-1]) == theirs["pieces"].split(" "):
            assert found.score == pytest.approx(theirs["score"], abs=1e-4)
            num_equal += 1
    assert num_equal >= 15


def test_settings_become_a_configuration():
    """Catches a setting that is left as our default: those of the package differ from it."""
    config = read_marian(GOLDEN / "marian_pre_norm").config
    model, decoding = config.model, config.decoding
    assert (model.num_layers, model.num_decoder_layers, model.num_heads) == (2, 1, 4)
    assert (model.norm, model.activation, model.embedding_norm) == ("pre", "gelu", True)
    assert (model.embedding_sharing, config.tokenizer.shared) == ("none", False)
    assert (decoding.beam_size, decoding.alpha, decoding.length_penalty) == (4, 1.0, "power")
    assert read_marian(GOLDEN / "marian_separate").config.model.embedding_sharing == "target"
    joint = read_marian(GOLDEN / "marian_joint")
    assert joint.tokenizers[0] is joint.tokenizers[1]


def test_a_model_of_several_target_languages(tmp_path):
    """Catches a target language that is not put before the source, or put before the target."""
    folder = copy_package(tmp_path / "a")
    file = folder / "opus.vocab.yml"
    file.write_bytes(file.read_bytes().replace(b"Q: ", b'">>deu<<": '))
    assert "begin each sentence with one, as >>deu<<" in " ".join(read_marian(folder).notes)
    found = read_folder(folder, "eng", "deu")
    source, target = found.tokenizers
    assert source.pieces(source.encode(["2"])[0]) == [">>deu<<", "▁", "2", "</s>"]
    assert ">>deu<<" not in target.pieces(target.encode(["2"])[0])
    assert (found.config.data.source_language, found.config.tokenizer.shared) == ("eng", True)
    with pytest.raises(ValueError, match="fra is none of the 1 languages"):
        read_marian(folder, "eng", "fra")


def test_what_marian_does_by_itself_is_kept(tmp_path):
    """Catches our beam and penalty where decoder.yml names none, and the gelu of old versions."""
    settings = {"transformer-ffn-activation": "gelu", "version": "v1.9.0 ba94c5b9 2020-05-17"}
    folder = copy_package(tmp_path / "a", settings=settings)
    (folder / "decoder.yml").write_text("vocabs: [opus.vocab.yml, opus.vocab.yml]\n")
    config = read_marian(folder).config
    found = config.decoding.beam_size, config.decoding.alpha, config.model.activation
    assert found == (12, 0, "gelu_sigmoid")


def test_older_forms_of_the_softmax_and_of_tied_tables(tmp_path):
    """Catches a softmax that is transposed, and a table of both sides that only one gets."""
    with np.load(GOLDEN / "marian_pre_norm" / MODEL) as archive:
        table = archive["decoder_ff_logit_out_Wt"]
    tensors = {"decoder_ff_logit_out_Wt": None, "decoder_ff_logit_out_W": table.T}
    found = read_marian(copy_package(tmp_path / "a", "marian_pre_norm", tensors=tensors)).params
    wanted = read_marian(GOLDEN / "marian_pre_norm").params
    np.testing.assert_array_equal(found["softmax/table"], wanted["softmax/table"])
    tensors = {"encoder_Wemb": None, "decoder_Wemb": None, "Wemb": table}
    changes = dict(settings={"tied-embeddings-src": True}, tensors=tensors)
    found = read_marian(copy_package(tmp_path / "b", "marian_pre_norm", **changes)).params
    np.testing.assert_array_equal(found["source_embedding/table"], found["target_embedding/table"])


def test_all_that_has_no_counterpart_is_named_at_once(tmp_path):
    """Catches a model that is read as another one, and a user who learns it bit by bit."""
    settings = {
        "transformer-decoder-autoreg": "rnn",
        "transformer-postprocess": "dna",
        "transformer-tied-layers": [1, 1],
        "transformer-decoder-dim-ffn": 64,
    }
    folder = copy_package(tmp_path / "a", settings=settings, decoder={"word-penalty": 0.2})
    with pytest.raises(ValueError, match="no model of this package has") as refused:
        read_marian(folder)
    for name in [*settings, "word-penalty=0.2", MODEL]:
        assert name in str(refused.value)


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"encoder_l2_self_bq": None}, "missing, .*: encoder_l2_self_bq"),
        ({"Wpos": np.zeros((4, 16))}, "unknown, .*: Wpos"),
        ({"encoder_l1_ffn_W1": np.zeros((16, 32), np.int8)}, "encoder_l1_ffn_W1 is int8"),
        ({SETTINGS: None}, "special:model.yml holds no settings"),
    ],
)
def test_a_file_of_another_model_is_refused(tmp_path, tensors, message):
    """Catches a layer that stays as it was initialised, and a tensor that is dropped."""
    with pytest.raises(ValueError, match=message) as refused:
        read_marian(copy_package(tmp_path / "a", tensors=tensors))
    assert MODEL in str(refused.value)


def test_a_damaged_file_is_named(tmp_path):
    """Catches a trace of zipfile, yaml or SentencePiece, and an object that is unpickled."""
    whole = (GOLDEN / "marian_pieces" / MODEL).read_bytes()
    pickled = io.BytesIO()
    np.savez(pickled, a=np.array([{}], dtype=object))
    encrypted = whole.replace(b"PK\1\2\x14\0\x14\0\0", b"PK\1\2\x14\0\x14\0\1", 1)
    assert encrypted != whole
    contents = b"", b"PK\3\4", whole[:30_000], whole[:-10_000], pickled.getvalue(), encrypted
    for number, content in enumerate(contents):
        folder = copy_package(tmp_path / str(number))
        (folder / MODEL).write_bytes(content)
        with pytest.raises(ValueError, match=f"{MODEL} is not a .npz file"):
            read_marian(folder)
    for file in ("decoder.yml", "opus.vocab.yml", "source.spm"):
        folder = copy_package(tmp_path / file)
        (folder / file).write_bytes(b"a: [\n\0\xff")
        with pytest.raises(ValueError, match=file):
            read_marian(folder)
        (folder / file).unlink()
        with pytest.raises(ValueError, match=f"{file} cannot be read"):
            read_marian(folder)


def test_the_model_among_several_files(tmp_path):
    """Catches the last checkpoint in place of the best one, and a choice that nobody made."""
    folder = copy_package(tmp_path / "a", decoder={"models": ["elsewhere.npz"]})
    (folder / "last.npz").write_bytes(b"")
    assert read_marian(folder).params
    (folder / "other.npz.best-perplexity.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"say in decoder\.yml which"):
        read_marian(folder)
    for i, models in enumerate([{"models": [MODEL, MODEL]}, {"vocabs": 7}]):
        folder = copy_package(tmp_path / str(i), decoder=models)
        with pytest.raises(ValueError, match="must name one model with two vocabularies"):
            read_marian(folder)


def test_vocab_yml_is_read_by_its_bytes():
    """Catches a reader of YAML, or of lines, that drops or renames the pieces it cannot take."""
    keys = [
        b"</s>", b"<unk>", b":", b'":"', b'"\\"q\\""', b'"a\\x01b"', b'"\\ufeff"', b'"\xc1\xbf"',
        "\x85".encode(), "\u2028".encode(), b"'it''s'", b"'", b'"', b"\\", b"null", b"12", b"# x",
        b'"\\N\\L\\\\"',
    ]  # fmt: skip
    data = b"".join(b"%s: %d\n" % (key, i) for i, key in enumerate(keys)) + b"? long\n: 18\n"
    assert read_vocab_yml(data) == [
        "</s>", "<unk>", ":", ":", '"q"', "a\x01b", "\ufeff", "\\xc1\\xbf",
        "\x85", "\u2028", "it's", "'", '"', "\\", "null", "12", "# x", "\x85\u2028\\", "long",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "data", [b"", b"a: 0\nb: 2\n", b"a: 0\nb: 0\n", b"a: x\n", b"a\n", b"\xff"]
)
def test_a_damaged_vocab_yml_is_refused(data):
    """Catches rows that move by one where a line is lost."""
    with pytest.raises(ValueError, match="vocabulary"):
        read_vocab_yml(data)
