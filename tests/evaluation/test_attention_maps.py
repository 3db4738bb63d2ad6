"""attention_maps: the weights of every model of the family, with the names of its positions."""

import numpy as np
import pytest

import transformer
from tests.helpers.random_runs import TASKS, write_run
from transformer import Translator
from transformer.evaluation.attention_maps import self_attention_map, translation_map

TEXT = "w3 w1 w4 w1"
NAMES = {  # of the positions of TEXT or of an image of 4 × 4 pixels, for each task of one stack
    "classification": [*TEXT.split(), "</s>"],
    "token_classification": [*TEXT.split(), "</s>"],
    "masked_lm": [*TEXT.split(), "</s>"],
    "language_model": ["</s>", *TEXT.split()],
    "images": ["1,1", "1,2", "2,1", "2,2"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {task: write_run(folder / task, task, num_layers=2) for task in TASKS}


@pytest.mark.long
@pytest.mark.parametrize("task", NAMES)
def test_self_attention_has_a_row_of_weights_for_each_position(runs, task, tmp_path):
    """Catches positions under the names of others, and a causal model that sees what follows. Also
    a model of pairs that is drawn without [CLS], or with a pair as one text."""
    example = np.arange(16).reshape(4, 4, 1) / 16 if task == "images" else TEXT
    found = self_attention_map(transformer.restore(runs[task]), example, each_head=True)
    size = len(NAMES[task])
    assert found.source_pieces == found.target_pieces == NAMES[task]
    assert found.weights.shape == (2, 2, size, size)  # [layers, N, …]
    np.testing.assert_allclose(found.weights.sum(-1), 1, rtol=1e-5)
    later = np.triu(np.ones((size, size), bool), 1)
    assert (found.weights[..., later] == 0).all() == (task == "language_model")
    if task == "classification":
        run = transformer.restore(write_run(tmp_path / "run", task, token_types=True))
        found = self_attention_map(run, "w3 w1\tw4")
        assert found.source_pieces == ["<s>", "w3", "w1", "</s>", "w4", "</s>"]


def test_a_class_token_is_named(tmp_path):
    run = transformer.restore(write_run(tmp_path / "run", "images", pooling="first"))
    found = self_attention_map(run, np.zeros((4, 4, 1)))
    assert found.source_pieces == ["class", *NAMES["images"]]
    assert found.weights.shape[1] == 1  # the mean over heads


def test_the_three_kinds_of_a_translation_model(runs):
    """Catches the decoder's columns named by the tokens that they predict."""
    translator = Translator.from_checkpoint(runs["translation"])
    (translation,) = translator.translate([TEXT])
    weights = translator.attention(TEXT, translation)
    source, target = weights.source_pieces, weights.target_pieces
    for of, names in (
        ("encoder_decoder", (source, target)),
        ("encoder", (source, source)),
        ("decoder", (["<s>", *target[:-1]], target)),
    ):
        found = translation_map(translator, TEXT, translation, of=of, each_head=True)
        assert (found.source_pieces, found.target_pieces) == names
        np.testing.assert_array_equal(found.weights, getattr(weights, of))


def test_a_text_that_is_too_long_is_one_sentence(runs):
    run = transformer.restore(runs["classification"])
    with pytest.raises(ValueError, match="has 18 tokens, the model takes 16: shorten it"):
        self_attention_map(run, "w1 " * 17)
    run.config.model.block = "transformer_xl"
    with pytest.raises(ValueError, match="is by segments"):
        self_attention_map(run, "w1")


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_drawn(runs, task, tmp_path):
    """Catches the first text that is empty, images of another folder, and the mean of all heads."""
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    np.savez(tmp_path / "test.npz", images=np.ones((2, 4, 4)), labels=["no", "yes"])
    given = {"corpus": str(tmp_path)} if task == "images" else {"texts": ["", TEXT]}
    picture = tmp_path / "map.svg"
    transformer.draw_attention(runs[task], picture, **given, each_head=True)
    assert picture.read_text().count("layer 2, head 2") == 1
    if task not in ("images", "translation"):
        with pytest.raises(ValueError, match="add --input=FILE"):
            transformer.draw_attention(runs[task], picture)
