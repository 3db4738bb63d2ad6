"""Folders of BERT, GPT-2 and ViT in and out, held against what transformers computed of them."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.helpers.imported import (
    GOLDEN,
    as_run,
    assert_equal,
    build,
    changed_folder,
    compute,
    random_model,
)
from tests.helpers.rings import others_long
from tests.helpers.tiny_models import tiny_config
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.inference.encoders import Classifier
from transformer.inference.language_model import LanguageModel
from transformer.interop.huggingface import bert, gpt2, vit
from transformer.interop.settings import class_names

FAMILIES = {"bert": bert, "bert_classifier": bert, "gpt2": gpt2, "vit": vit}
TEXTS = ["The cat sat on the mat.", "Who is in it?", "", "über cats, singing und eine dog!"]
PROMPTS = ["the cat", "on the mat\n\nthe", "a", "Über 日本"]
BERT_TENSORS = load_file(GOLDEN / "bert" / "model.safetensors")
WORDS = load_file(GOLDEN / "gpt2" / "model.safetensors")[gpt2.WORDS]
BIAS = "transformer.h.0.attn.c_attn.bias"


@cache
def golden(name):
    """The model of a golden folder, which no test may change."""
    return FAMILIES[name].read(GOLDEN / name)


def expected(name):
    return np.load(GOLDEN / name / "expected.npz")


def read_changed(name, folder, **changes):
    return FAMILIES[name].read(changed_folder(GOLDEN / name, folder, **changes))


def without(end):
    """Renames tensors: those of a bare model without the head whose names begin with `end`."""
    return lambda name: None if name.startswith(end) else name.partition(".")[2]


# ---- what transformers computes


def test_masked_lm_has_the_logits_of_transformers():
    """Catches a name, a transpose, an activation or an epsilon that is another's."""
    ids, logits = (expected("bert")[name] for name in ("ids", "logits"))
    tokenizer = golden("bert").tokenizers[0]
    is_token = ids != tokenizer.special.pad
    np.testing.assert_allclose(compute(golden("bert"), ids)[is_token], logits[is_token], atol=1e-5)
    rows = [row[known].tolist() for row, known in zip(ids, is_token, strict=True)]
    assert tokenizer.encode(TEXTS) == rows[: len(TEXTS)]
    assert any("next one is left out" in note for note in golden("bert").notes)


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("bert_classifier", Labels(["place", "person", "number"])),
        ("vit", Labels(["cat", "dog", "bird", "fish"], [8, 12, 3])),
    ],
)
def test_classifiers_have_the_probabilities_of_transformers(name, labels):
    """Catches another pooling or order of classes or patches, and pixels scaled otherwise."""
    inputs = expected(name)["images"] / 255 if labels.image_shape else TEXTS
    found = Classifier(as_run(golden(name))).classify(inputs)
    probabilities = [list(each.probabilities.values()) for each in found]
    np.testing.assert_allclose(probabilities, expected(name)["probabilities"], atol=1e-5)
    assert golden(name).labels == labels


def test_gpt2_has_the_logits_of_transformers():
    """Catches queries taken for keys, a transpose, a missing last norm, and rows that speak up."""
    imported, arrays = golden("gpt2"), expected("gpt2")
    encoded = imported.tokenizers[0].encode(PROMPTS)
    for theirs, logits, ids in zip(arrays["ids"], arrays["logits"], encoded, strict=True):
        assert ids == [*(i for i in theirs if i >= 0), imported.tokenizers[0].special.eos]
        found = compute(imported, np.array([ids[:-1]]))[0]
        np.testing.assert_allclose(found, logits[: len(ids) - 1], atol=1e-5)


@pytest.mark.long
def test_greedy_continuations_are_those_of_transformers():
    """Catches a prompt that gets an <|endoftext|> before it, and an end that is not seen."""
    model = LanguageModel(as_run(golden("gpt2")))
    continuations = json.loads((GOLDEN / "gpt2" / "continuations.json").read_text())
    assert model.generate(PROMPTS, num_pieces=10, temperature=0) == continuations
    assert model.generate(PROMPTS[:1], num_pieces=10, seed=1, top_k=5)[0]


# ---- other forms of the same model


def old_name(name):
    """As files of 2018 have it: scale and bias as in the paper."""
    name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
    return name.replace("LayerNorm.bias", "LayerNorm.beta")


OLD = {
    "bert": dict(
        rename=old_name,
        add={
            bert.SOFTMAX: BERT_TENSORS["bert.embeddings.word_embeddings.weight"],
            bert.SOFTMAX_BIAS: BERT_TENSORS["cls.predictions.bias"],
            bert.POSITION_IDS: np.arange(24)[None],
        },
    ),
    "gpt2": dict(
        rename=lambda name: name.removeprefix("transformer."),
        add={
            "h.1.attn.bias": np.ones((1, 1, 24, 24), np.uint8),
            "h.0.attn.masked_bias": np.ones(1),
            gpt2.SOFTMAX: WORDS,
        },
        drop=("activation_function", "scale_attn_weights", "layer_norm_epsilon"),
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_files_of_other_ages_hold_the_same(name, tmp_path):
    """Catches names of one version of transformers alone, and buffers taken for weights."""
    assert_equal(read_changed(name, tmp_path / "old", **OLD[name]), golden(name))


def test_a_bare_bert_is_a_run_to_start_from(tmp_path):
    """Catches a bare encoder that is refused, or whose missing parts are made up."""
    found = read_changed("bert", tmp_path / "bare", rename=without("cls."))
    heads = "prediction", "tokens/table/bias"
    assert found.params.keys() == {n for n in golden("bert").params if not n.startswith(heads)}
    assert found.config.task == "masked_lm" and not found.config.model.prediction_head
    assert any("no prediction head" in note for note in found.notes)
    build(found)
    rename = lambda name: None if "pooler" in name else name  # noqa: E731
    found = read_changed("bert", tmp_path / "no pooler", rename=rename)
    assert found.config.model.pooling == "mean" and any("no pooler" in n for n in found.notes)


@pytest.mark.parametrize("pooling", ["pooler", "first"])
def test_a_bare_vit_is_a_run_to_start_from(pooling, tmp_path):
    """Catches a bare encoder that is refused: it is what people fine-tune."""
    pooler = {"pooler.dense.weight": np.eye(16, dtype=np.float32), "pooler.dense.bias": np.ones(16)}
    add = pooler if pooling == "pooler" else {}
    found = read_changed("vit", tmp_path / "bare", rename=without("classifier"), add=add)
    assert (found.config.model.pooling, found.labels.names) == (pooling, ["unknown"])
    assert any("no classes" in note for note in found.notes)
    build(found)


def test_projections_without_bias_get_zeros(tmp_path):
    """Catches qkv_bias=False, which leaves a bias of the output projection."""
    rename = lambda name: None if name.endswith(vit.PROJECTION_BIASES) else name  # noqa: E731
    found = read_changed("vit", tmp_path / "f", rename=rename, qkv_bias=False)
    build(found)
    attention = "encoder/layer_0/self_attention"
    assert not found.params[f"{attention}/key/bias"].any()
    assert found.params[f"{attention}/output/bias"].any()


def test_rows_that_stand_for_nothing_are_left_out(tmp_path):
    """Catches a row that stands for nothing and stays."""
    found = read_changed("gpt2", tmp_path / "f", add={gpt2.WORDS: np.pad(WORDS, [(0, 4), (0, 0)])})
    assert_equal(found, golden("gpt2"))
    assert "4 rows of the embedding stand for no token: left out." in found.notes


def test_names_of_classes():
    """Catches two classes with one name, and a config.json that leaves out LABEL_0 and LABEL_1."""
    names = {"0": "crane", "1": "crane", "3": "cat"}
    found = class_names({"id2label": names}, 4)
    assert found == ["crane (0)", "crane (1)", "LABEL_2", "cat"]
    with pytest.raises(ValueError, match=r"^The model has one output[^\n]*\.$"):
        class_names({}, 1)


# ---- what is refused


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("bert", {"model_type": "roberta"}, r"model_type='roberta' \(possible: bert\)"),
        (
            "bert",
            {"is_decoder": True, "position_embedding_type": "relative_key"},
            r"position_embedding_type='relative_key' \(possible: absolute\); is_decoder=True",
        ),
        (
            "bert",
            {"architectures": ["BertForTokenClassification"]},
            r"\['BertForTokenClassification'\], a head that is not read: import the BertForM",
        ),
        ("bert", {"num_hidden_layers": 3}, "encoder.layer.2.attention.output.LayerNorm.bias"),
        ("bert", {"num_attention_heads": 3}, "a width of 16, which does not divide by 3 heads"),
        ("bert", {"hidden_size": "many"}, "lacks a positive number as hidden_size"),
        ("bert", {"add": {bert.SOFTMAX: np.zeros((58, 16))}}, "decoder.weight is another table"),
        (
            "gpt2",
            {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
            r"scale_attn_weights=False \(possible: True\); scale_attn_by_inverse_layer_idx=True",
        ),
        ("gpt2", {"add": {gpt2.WORDS: WORDS[:-3]}}, "has 268 tokens, the model rows for 265"),
        ("gpt2", {"add": {BIAS: np.zeros(7)}}, r"c_attn.bias \(7,\) does not divide into 3"),
        ("gpt2", {"add": {BIAS: np.zeros(48, np.int8)}}, "c_attn.bias is int8: take the file of"),
        ("gpt2", {"add": {BIAS: np.full(48, np.nan)}}, "has numbers that are NaN or infinite"),
        ("gpt2", {"add": dict.fromkeys("abcd", WORDS)}, "unknown, .*: a, b, c and 1 more"),
        ("vit", {"patch_size": [4, 2]}, "patches of 4 × 2: they must be squares"),
        ("vit", {"image_size": 10}, "10 × 10 with 3 channels into patches of 4 × 4"),
        ("vit", {"patch_size": 0}, "into patches of 0 × 0"),
        ("vit", {"image_size": [8, 8, 8]}, "they must be squares"),
        ("vit", {"id2label": ["cat"]}, r"id2label of config.json must be names .* \['cat'\]"),
    ],
)
def test_what_we_have_not_is_refused_in_one_sentence(name, changes, message, tmp_path):
    """Catches a model that is taken for another, and a list of which only the first is named."""
    with pytest.raises(ValueError, match=rf"^[^\n]*{message}[^\n]*\.$"):
        read_changed(name, tmp_path / "folder", **changes)


def test_a_folder_without_a_vocabulary(tmp_path):
    """Catches a stack trace where a file is missing."""
    folder = changed_folder(GOLDEN / "bert_classifier", tmp_path / "folder")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"neither tokenizer.json nor vocab.txt"):
        bert.read(folder)


def test_pixels_are_scaled_only_as_the_folder_says(tmp_path):
    """Catches a normalisation that is assumed."""
    folder = changed_folder(GOLDEN / "vit", tmp_path / "folder")
    (folder / vit.PREPROCESSOR).unlink()
    with pytest.raises(ValueError, match=r"preprocessor_config.json cannot be read: No such file"):
        vit.read(folder)
    for wrong, message in [
        ({"image_mean": ["a", "b", "c"]}, "image_mean and image_std as 3 numbers each"),
        ({"image_std": [0.5, 0, 0.5]}, "no image_std of 0"),
        ({"rescale_factor": "x"}, "rescale_factor as a number"),
    ]:
        (folder / vit.PREPROCESSOR).write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=message):
            vit.read(folder)
    kernel = np.random.default_rng(0).normal(size=(5, 3, 4, 4))
    params = {"patches/kernel": kernel, "patches/bias": np.ones(5)}
    folded = vit.fold_pixels(params, 3, {"do_normalize": False, "do_rescale": False})
    found = folded["patches/kernel"][(2 * 4 + 1) * 3 + 2]
    np.testing.assert_allclose(found, 255 * kernel[:, 2, 2, 1], rtol=1e-6)
    assert (folded["patches/bias"] == 1).all()


# ---- written folders


@pytest.mark.parametrize("name", ["bert", "bert_classifier", "gpt2"])
def test_what_is_written_reads_back_the_same(name, tmp_path):
    """Catches an array, an id or a token that is not given back."""
    model, module = golden(name), FAMILIES[name]
    notes = module.write(model, tmp_path)
    again = module.read(tmp_path)
    assert_equal(again, model)
    assert again.tokenizers[0].to_bytes() == model.tokenizers[0].to_bytes()
    assert all(note in (tmp_path / "README.md").read_text() for note in notes)
    if name == "gpt2":
        folders = GOLDEN / name, tmp_path
        theirs, ours = (load_file(folder / "model.safetensors") for folder in folders)
        assert theirs.keys() == ours.keys()
        before, after = (json.loads((f / "config.json").read_text()) for f in folders)
        assert before | after == before | {"n_inner": 32}


BERT = dict(embedding_norm=True, prediction_head=True, pooling="pooler", activation="swish")


def own_run(task, **settings):
    """A run with settings that theirs have not: scaled embeddings, sinusoids, no biases."""
    name = "gpt2" if task == "language_model" else "bert"
    defaults = dict(norm="pre") if name == "gpt2" else BERT
    config = Config(task=task, model=tiny_config(**defaults | settings))
    config.tokenizer.kind, config.data.row_length = "imported", 16
    labels = Labels(["no", "yes"] if task == "classification" else [])
    return FAMILIES[name], random_model(config, golden(name).tokenizers, labels)


PAIRS = dict(token_types=True, next_sentence=True)
OWN = [("masked_lm", {}), ("classification", {}), ("language_model", {}), ("masked_lm", PAIRS)]


@pytest.mark.parametrize(("task", "settings"), others_long(OWN, OWN[0], OWN[2]))
def test_a_run_of_our_own_becomes_one_of_theirs(task, settings, tmp_path):
    """Catches a scale, positions, biases, token types or a head that the other side would lack."""
    module, ours = own_run(task, **settings)
    module.write(ours, tmp_path)
    again = module.read(tmp_path)
    assert again.config.model.scale_embedding == (task != "classification")
    ids = np.array([[1, 7, 8, 2, 9, 2]])
    np.testing.assert_allclose(compute(again, ids), compute(ours, ids), atol=1e-5)
    if settings:
        weight = load_file(tmp_path / "model.safetensors")["cls.seq_relationship.weight"]
        np.testing.assert_array_equal(weight.T, ours.params["next_sentence/kernel"])


def test_every_array_has_a_place(tmp_path):
    """Catches a part of a model that is left out of what is written without a word."""
    model = golden("gpt2")
    extra = replace(model, params=model.params | {"layer/outer/bias": np.zeros(3)})
    with pytest.raises(ValueError, match="nothing for layer/outer/bias"):
        gpt2.write(extra, tmp_path)


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "masked_lm",
            dict(norm="pre", embedding_norm=False, head_dim=4),
            r"model.norm=pre, model.embedding_norm=False, heads of \(4, 4\), .*; use",
        ),
        ("classification", dict(pooling="mean"), "model.pooling=mean;"),
        (
            "language_model",
            dict(norm="post", attention="local", norm_type="rms_norm", output_bias=True),
            "model.norm_type=rms_norm, model.attention=local, model.norm=post, .*_bias=True; use",
        ),
    ],
)
def test_runs_that_they_cannot_hold_are_refused(task, settings, message, tmp_path):
    """Catches a folder that computes something else than the run."""
    module, run = own_run(task, **settings)
    with pytest.raises(ValueError, match=f"cannot hold {message}"):
        module.write(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
