"""ViT's Hugging Face folders: read as image classifiers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface import bert
from transformer.interop.huggingface.one_stack import stack_config
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.settings import (
    Setting,
    SettingsTable,
    class_names,
    is_count,
    read_settings,
)
from transformer.interop.weights import name_table
from transformer.interop.weights.files import open_tensors

SETTINGS = SettingsTable(
    {
        **bert.STACK,
        "hidden_dropout_prob": Setting("dropout_rate", 0.0),
        "attention_probs_dropout_prob": Setting("attention_dropout_rate", 0.0),
    },
    possible={
        "model_type": ("vit",),
        "pooler_act": ("tanh",),
        "problem_type": ("single_label_classification",),
    },
)
NAMES = {
    "class_token": "vit.embeddings.cls_token",
    "positions/table": "vit.embeddings.position_embeddings",
    "patches/kernel": "vit.embeddings.patch_embeddings.projection.weight",
    "patches/bias": "vit.embeddings.patch_embeddings.projection.bias",
    "layer": "vit.encoder.layer.#.",
    "self_attention/query": "attention.attention.query",
    "self_attention/key": "attention.attention.key",
    "self_attention/value": "attention.attention.value",
    "self_attention/output": "attention.output.dense",
    "self_residual/LayerNorm_0": "layernorm_before",
    "feed_forward/inner": "intermediate.dense",
    "feed_forward/outer": "output.dense",
    "feed_forward_residual/LayerNorm_0": "layernorm_after",
    "encoder/last_norm": "vit.layernorm",
    "pooler/dense": "pooler.dense",
    "classes": "classifier",
}
PREPROCESSOR = "preprocessor_config.json"
PROJECTION_BIASES = tuple(f"attention.attention.{p}.bias" for p in ("query", "key", "value"))
NO_CLASS = "unknown"  # the only class of a ViTModel, until it is fine-tuned


def read(folder: PathLike) -> PortableModel:
    """Reads a ViTForImageClassification; or a ViTModel, which knows one class: it is a start.

    Raises ValueError for any other model, and if the folder does not say how pixels are scaled.
    """
    settings = read_settings(folder)
    model_settings = SETTINGS.read(settings)
    pixels = read_settings(folder, PREPROCESSOR)
    tensors = open_tensors(folder)
    image_shape, patch_size = _image_shape(settings)
    height, width, channels = image_shape
    config = stack_config(
        "images",
        **model_settings,
        max_positions=1 + (height // patch_size) * (width // patch_size),
        norm="pre",
        pooling="pooler" if "pooler.dense.weight" in tensors else "first",
    )
    config.data.patch_size = patch_size
    notes = [f"Images are numbers from 0 to 1, resized to {height} × {width}: scaling is folded."]
    names, classes = dict(NAMES), [NO_CLASS]
    if has_classes := "classifier.weight" in tensors:
        classes = class_names(settings, len(tensors["classifier.weight"]))
    else:
        del names["classes"]
        notes.append(f"It has no classes: fine-tune it, it says {NO_CLASS!r} to every image.")
    labels = Labels(classes, [*image_shape])
    table = name_table.entries(name_table.array_names(config, (), labels), names)
    absent = () if settings.get("qkv_bias", True) else PROJECTION_BIASES
    params = name_table.read(table, tensors, prefix="vit.", absent=absent)
    if not has_classes:
        params["classes/kernel"] = np.zeros((config.model.d_model, 1), np.float32)
        params["classes/bias"] = np.zeros(1, np.float32)
    params["class_token"] = params["class_token"][0, 0]
    params["positions/table"] = params["positions/table"][0]
    params |= fold_pixels(params, channels, pixels)
    return PortableModel(config, params, labels=labels, notes=notes)


def _image_shape(settings: Mapping[str, Any]) -> tuple[tuple[int, int, int], int]:
    """Returns ((height, width, channels) of an image, the side of a patch) of a config.json."""
    sizes = settings.get("image_size", 224), settings.get("patch_size", 16)
    (height, width), (patch_size, other_side) = (
        size if isinstance(size, list) and len(size) == 2 else (size, size) for size in sizes
    )
    channels = settings.get("num_channels", 3)
    are_counts = all(map(is_count, (height, width, patch_size, other_side, channels)))
    if not are_counts or patch_size != other_side or height % patch_size or width % patch_size:
        raise ValueError(
            f"config.json cuts images of {height} × {width} with {channels} channels into patches "
            f"of {patch_size} × {other_side}: they must be squares that fill the image."
        )
    return (height, width, channels), patch_size


def fold_pixels(params: FlatParams, channels: int, pixels: Mapping[str, Any]) -> FlatParams:
    """Returns kernel and bias for our patches, whose pixels go from 0 to 1.

    Theirs [D, C, P, P] takes (x · rescale_factor - mean) / std of pixels x from 0 to 255, ours
    [P · P · C, D] takes x / 255. pixels: the settings that say so, in preprocessor_config.json.
    """
    mean, std, scale = np.zeros(channels), np.ones(channels), 255.0
    try:
        if pixels.get("do_normalize", True):
            names = "image_mean", "image_std"
            mean, std = np.array([pixels.get(name, [0.5] * channels) for name in names], np.float64)
        if pixels.get("do_rescale", True):
            scale *= float(pixels.get("rescale_factor", 1 / 255))
        is_usable = mean.shape == (channels,) and bool(np.isfinite([*mean, *std, scale]).all())
    except (TypeError, ValueError):
        is_usable = False
    if not is_usable or 0 in std:
        raise ValueError(
            f"{PREPROCESSOR} must give rescale_factor as a number, and image_mean and image_std as "
            f"{channels} numbers each, one for a channel and no image_std of 0."
        )
    kernel = params["patches/kernel"].transpose(2, 3, 1, 0) / std[:, None]  # [P, P, C, D]
    bias = params["patches/bias"] - np.einsum("hwcd,c->d", kernel, mean)
    kernel = (kernel * scale).reshape(-1, len(bias))
    folded = {"patches/kernel": kernel, "patches/bias": bias}
    return {name: array.astype(np.float32) for name, array in folded.items()}
