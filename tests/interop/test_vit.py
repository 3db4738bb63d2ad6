"""ViT's folders, held against what transformers computed of them."""

import json

import numpy as np
import pytest

from tests.helpers.imported import GOLDEN, as_run, build, changed_folder
from transformer.inference.encoders import Classifier
from transformer.interop.huggingface import vit

FOLDER = GOLDEN / "vit"


@pytest.fixture(scope="module")
def imported():
    return vit.read(FOLDER)


def test_probabilities_are_those_of_transformers(imported):
    """Catches patches in another order, a class token at the end, and pixels scaled otherwise."""
    expected = np.load(FOLDER / "expected.npz")
    classifier = Classifier(as_run(imported))
    found = classifier.classify(expected["images"] / 255)
    probabilities = [list(each.probabilities.values()) for each in found]
    np.testing.assert_allclose(probabilities, expected["probabilities"], atol=1e-5)
    assert imported.labels.names == ["cat", "dog", "bird", "fish"]
    assert imported.labels.image_shape == [8, 12, 3]


@pytest.mark.parametrize("pooling", ["pooler", "first"])
def test_an_encoder_alone_is_a_run_to_start_from(pooling, tmp_path):
    """Catches a bare encoder that is refused: it is what people fine-tune."""

    def bare(name):
        return None if name.startswith("classifier") else name.removeprefix("vit.")

    pooler = {"pooler.dense.weight": np.eye(16, dtype=np.float32), "pooler.dense.bias": np.ones(16)}
    add = pooler if pooling == "pooler" else {}
    found = vit.read(changed_folder(FOLDER, tmp_path / "bare", rename=bare, add=add))
    assert (found.config.model.pooling, found.labels.names) == (pooling, ["unknown"])
    assert any("no classes" in note for note in found.notes)
    build(found)


def test_projections_without_bias_get_zeros(imported, tmp_path):
    """Catches qkv_bias=False, which leaves a bias of the output projection."""

    def without(name):
        return None if name.endswith(vit.PROJECTION_BIASES) else name

    found = vit.read(changed_folder(FOLDER, tmp_path / "f", rename=without, qkv_bias=False))
    build(found)
    attention = "encoder/layer_0/self_attention"
    assert not found.params[f"{attention}/key/bias"].any()
    assert found.params[f"{attention}/output/bias"].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_type": "deit"}, "model_type='deit'"),
        ({"patch_size": [4, 2]}, "patches of 4 × 2: they must be squares"),
        ({"image_size": 10}, "10 × 10 with 3 channels into patches of 4 × 4"),
        ({"patch_size": 0}, "into patches of 0 × 0"),
        ({"image_size": "x"}, "images of x × x"),
        ({"image_size": [8, 8, 8]}, "they must be squares"),
        ({"id2label": ["cat"]}, r"id2label of config.json must be names by number, not \['cat'\]"),
    ],
)
def test_what_we_have_not_is_refused_in_one_sentence(settings, message, tmp_path):
    """Catches an image that is cut short, and a model that is taken for another."""
    with pytest.raises(ValueError, match=rf"^[^\n]*{message}[^\n]*\.$"):
        vit.read(changed_folder(FOLDER, tmp_path / "folder", **settings))


def test_pixels_are_scaled_only_as_the_folder_says(tmp_path):
    """Catches a normalisation that is assumed."""
    folder = changed_folder(FOLDER, tmp_path / "folder")
    (folder / vit.PREPROCESSOR).unlink()
    with pytest.raises(ValueError, match=r"preprocessor_config.json cannot be read: No such file"):
        vit.read(folder)
    for wrong, expected in [
        ({"image_mean": ["a", "b", "c"]}, "image_mean and image_std as 3 numbers each"),
        ({"image_std": [0.5, 0, 0.5]}, "no image_std of 0"),
        ({"rescale_factor": "x"}, "rescale_factor as a number"),
    ]:
        (folder / vit.PREPROCESSOR).write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=expected):
            vit.read(folder)
    raw = {"do_normalize": False, "do_rescale": False}
    kernel = np.random.default_rng(0).normal(size=(5, 3, 4, 4))
    params = {"patches/kernel": kernel, "patches/bias": np.ones(5)}
    folded = vit.fold_pixels(params, 3, raw)
    np.testing.assert_allclose(
        folded["patches/kernel"][(2 * 4 + 1) * 3 + 2], 255 * kernel[:, 2, 2, 1], rtol=1e-6
    )
    assert (folded["patches/bias"] == 1).all()
