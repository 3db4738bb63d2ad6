"""BERT's folders in and out, held against what transformers computed of them."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import transformer
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
from transformer.interop.huggingface import bert
from transformer.interop.settings import class_names

FOLDER, CLASSIFIER = GOLDEN / "bert", GOLDEN / "bert_classifier"
TEXTS = ["The cat sat on the mat.", "Who is in it?", "", "über cats, singing und eine dog!"]


@pytest.fixture(scope="module")
def masked_lm():
    return bert.read(FOLDER)


@pytest.fixture(scope="module")
def classifier():
    return bert.read(CLASSIFIER)


@pytest.fixture
def expected():
    """(ids [B, S], logits [B, S, V]) of the golden masked LM."""
    arrays = np.load(FOLDER / "expected.npz")
    return arrays["ids"], arrays["logits"]


def test_masked_lm_has_the_logits_of_transformers(masked_lm, expected):
    """Catches a name, a transpose, an activation or an epsilon that is another's."""
    ids, logits = expected
    is_token = ids != masked_lm.tokenizers[0].special.pad
    np.testing.assert_allclose(compute(masked_lm, ids)[is_token], logits[is_token], atol=1e-5)
    encoded = masked_lm.tokenizers[0].encode(TEXTS)
    assert encoded == [
        row[row != masked_lm.tokenizers[0].special.pad].tolist() for row in ids[: len(TEXTS)]
    ]
    assert any("next one is left out" in note for note in masked_lm.notes)


def test_classifier_has_the_probabilities_of_transformers(classifier):
    """Catches another pooling, another order of classes, and a vocab.txt that is read otherwise."""
    found = Classifier(as_run(classifier))
    probabilities = [list(each.probabilities.values()) for each in found.classify(TEXTS)]
    expected = np.load(CLASSIFIER / "expected.npz")["probabilities"]
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert classifier.labels.names == ["place", "person", "number"]


def test_files_of_other_ages_hold_the_same(masked_lm, tmp_path):
    """Catches names of one version of transformers alone, and buffers taken for weights."""
    tensors = load_file(FOLDER / "model.safetensors")
    copies = {
        "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": tensors["cls.predictions.bias"],
        "bert.embeddings.position_ids": np.arange(24)[None],
    }

    def old_name(name):
        """As files of 2018 have it: scale and bias as in the paper."""
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        return name.replace("LayerNorm.bias", "LayerNorm.beta")

    folder = changed_folder(FOLDER, tmp_path / "old", rename=old_name, add=copies)
    assert_equal(bert.read(folder), masked_lm)


def test_an_encoder_alone_is_a_run_to_start_from(masked_lm, tmp_path):
    """Catches a bare encoder that is refused, or whose missing parts are made up."""

    def bare(name):
        return None if name.startswith("cls.") else name.removeprefix("bert.")

    found = bert.read(changed_folder(FOLDER, tmp_path / "bare", rename=bare))
    heads = "prediction", "tokens/table/bias"
    assert found.params.keys() == {n for n in masked_lm.params if not n.startswith(heads)}
    assert found.config.task == "masked_lm" and not found.config.model.prediction_head
    assert any("no prediction head" in note for note in found.notes)
    build(found)

    def no_pooler(name):
        return None if "pooler" in name else name

    found = bert.read(changed_folder(FOLDER, tmp_path / "no pooler", rename=no_pooler))
    assert found.config.model.pooling == "mean" and any("no pooler" in n for n in found.notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "roberta"}, r"model_type='roberta' \(possible: bert\)"),
        (
            {"is_decoder": True, "position_embedding_type": "relative_key"},
            r"position_embedding_type='relative_key' \(possible: absolute\); is_decoder=True",
        ),
        (
            {"architectures": ["BertForTokenClassification"]},
            r"\['BertForTokenClassification'\], a head that is not read: import the BertForM",
        ),
        ({"num_hidden_layers": 3}, "encoder.layer.2.attention.output.LayerNorm.bias"),
        ({"num_hidden_layers": 1}, "are unknown, of a model of another kind"),
        (
            {"num_attention_heads": 3},
            "hidden_size=16 that does not divide by num_attention_heads=3",
        ),
        ({"hidden_size": "many"}, "lacks a positive number as hidden_size"),
    ],
)
def test_what_we_have_not_is_refused_in_one_sentence(settings, message, tmp_path):
    """Catches a model that is taken for another, and a list of which only the first is named."""
    with pytest.raises(ValueError, match=rf"^[^\n]*{message}[^\n]*\.$"):
        bert.read(changed_folder(FOLDER, tmp_path / "folder", **settings))


def test_damaged_folders_are_refused_in_one_sentence(tmp_path):
    """Catches a stack trace where a file is missing, cut, or of another model."""
    folder = changed_folder(CLASSIFIER, tmp_path / "folder")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"neither tokenizer.json nor vocab.txt"):
        bert.read(folder)
    for content, said in (("{", "holds no settings; restore"), (None, "cannot be read: No such")):
        (folder / "config.json").unlink()
        if content:
            (folder / "config.json").write_text(content)
        with pytest.raises(ValueError, match=f"config.json {said}"):
            bert.read(folder)
    table = {bert.SOFTMAX: np.zeros((58, 16), np.float32)}
    with pytest.raises(ValueError, match=r"decoder.weight is another table than"):
        bert.read(changed_folder(FOLDER, tmp_path / "two tables", add=table))


def test_names_of_classes():
    """Catches two classes with one name, and a config.json that leaves out LABEL_0 and LABEL_1."""
    names = {"0": "crane", "1": "crane", "3": "cat"}
    found = class_names({"id2label": names}, 4)
    assert found == ["crane (0)", "crane (1)", "LABEL_2", "cat"]
    assert class_names({}, 2) == ["LABEL_0", "LABEL_1"]
    with pytest.raises(ValueError, match=r"^The model has one output[^\n]*\.$"):
        class_names({}, 1)


@pytest.mark.parametrize("name", ["bert", "bert_classifier"])
def test_what_is_written_reads_back_the_same(name, tmp_path):
    """Catches an array that is written to another place than it is read from."""
    model = bert.read(GOLDEN / name)
    notes = bert.write(model, tmp_path / "out")
    again = bert.read(tmp_path / "out")
    assert_equal(again, model)
    assert again.tokenizers[0].encode(TEXTS) == model.tokenizers[0].encode(TEXTS)
    assert all(note in (tmp_path / "out" / "README.md").read_text() for note in notes)


def own_run(masked_lm, task, **changes):
    """A run with settings that BERT has not: scaled embeddings, sinusoids, no biases."""
    settings = dict(embedding_norm=True, prediction_head=True, pooling="pooler", activation="swish")
    config = Config(task=task, model=tiny_config(**settings | changes))
    config.tokenizer.kind, config.data.row_length = "imported", 16
    labels = Labels(["no", "yes"] if task == "classification" else [])
    return random_model(config, masked_lm.tokenizers, labels)


@pytest.mark.parametrize("task", others_long(["masked_lm", "classification"], "classification"))
def test_a_run_of_our_own_becomes_a_bert(masked_lm, task, tmp_path):
    """Catches a scale, positions or biases that the other side would lack."""
    ours = own_run(masked_lm, task)
    bert.write(ours, tmp_path)
    again = bert.read(tmp_path)
    assert again.config.model.scale_embedding == (task == "masked_lm")
    ids = np.array([masked_lm.tokenizers[0].encode([TEXTS[0]])[0]])
    np.testing.assert_allclose(compute(again, ids), compute(ours, ids), atol=1e-5)


@pytest.mark.long
def test_the_head_of_the_next_sentence_is_written(masked_lm, tmp_path):
    """Catches a head, or vectors of token types, that an export of bert_tiny would lose."""
    ours = own_run(masked_lm, "masked_lm", token_types=True, next_sentence=True)
    bert.write(ours, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    weight = tensors["cls.seq_relationship.weight"]
    np.testing.assert_array_equal(weight.T, ours.params["next_sentence/kernel"])
    ids = np.array([[1, 7, 8, 2, 9, 2]])
    np.testing.assert_allclose(compute(bert.read(tmp_path), ids), compute(ours, ids), atol=1e-5)


def test_runs_that_bert_cannot_hold_are_refused(masked_lm, tmp_path):
    """Catches a folder that computes something else than the run."""
    run = own_run(masked_lm, "masked_lm", norm="pre", embedding_norm=False, head_dim=4)
    message = r"hold model.norm=pre, model.embedding_norm=False, heads of \(4, 4\), .*; use"
    with pytest.raises(ValueError, match=message):
        bert.write(run, tmp_path / "out")
    run = own_run(masked_lm, "classification", pooling="mean")
    with pytest.raises(ValueError, match=r"Classification cannot hold model.pooling=mean;"):
        bert.write(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_its_run_says_how_to_become_a_classifier(tmp_path):
    """Catches a masked language model whose users do not learn what it is good for."""
    said = transformer.import_model(FOLDER, tmp_path / "run", check=False)
    assert said[-1].endswith("--config.task=classification --config.data.corpus=CORPUS")
    assert transformer.restore(tmp_path / "run").config.model.pooling == "pooler"
