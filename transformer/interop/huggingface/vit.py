"""ViT's Hugging Face folders: read as image classifiers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.files.storage import PathLike
from transformer.interop.huggingface import bert
from transformer.interop.huggingface.one_stack import stack_config
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.settings import (
    SettingsTable,
    class_names,
    is_count,
    read_settings,
)
from transformer.interop.weights import name_table
from transformer.interop.weights.files import open_tensors
from transformer.interop.weights.name_table import Entry, Style, dense, layer_norm, layers

SETTINGS = SettingsTable(
    bert.NAMES,
    bert.DEFAULTS | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    possible={
        "model_type": ("vit",),
        "pooler_act": ("tanh",),
        "problem_type": ("single_label_classification",),
    },
)
LAYER = {
    "self_attention/query": "attention.attention.query",
    "self_attention/key": "attention.attention.key",
    "self_attention/value": "attention.attention.value",
    "self_attention/output": "attention.output.dense",
    "self_residual/LayerNorm_0": "layernorm_before",
    "feed_forward/inner": "intermediate.dense",
    "feed_forward/outer": "output.dense",
    "feed_forward_residual/LayerNorm_0": "layernorm_after",
}
PREPROCESSOR, POOLER, CLASSES = "preprocessor_config.json", "pooler.dense", "classifier"
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
        pooling="pooler" if f"{POOLER}.weight" in tensors else "first",
    )
    config.data.patch_size = patch_size
    params = _read_params(config.validate(), settings, tensors)
    params = fold_pixels(params, channels, pixels)
    notes = [f"Images are numbers from 0 to 1, resized to {height} × {width}: scaling is folded."]
    if "classes/bias" in params:
        names = class_names(settings, len(params["classes/bias"]))
    else:
        names = [NO_CLASS]
        params["classes/kernel"] = np.zeros((config.model.d_model, 1), np.float32)
        params["classes/bias"] = np.zeros(1, np.float32)
        notes.append(f"It has no classes: fine-tune it, it says {NO_CLASS!r} to every image.")
    return PortableModel(config, params, labels=Labels(names, list(image_shape)), notes=notes)


def _image_shape(settings: Mapping[str, Any]) -> tuple[tuple[int, int, int], int]:
    """Returns ((height, width, channels) of an image, the side of a patch) of a config.json."""
    height, width = _pair(settings.get("image_size", 224))
    patch_size, other_side = _pair(settings.get("patch_size", 16))
    channels = settings.get("num_channels", 3)
    if not all(map(is_count, (height, width, patch_size, other_side, channels))):
        raise ValueError(
            f"image_size, patch_size and num_channels of config.json must be positive numbers, not "
            f"{height} × {width}, {patch_size} × {other_side} and {channels}."
        )
    if patch_size != other_side or height % patch_size or width % patch_size:
        raise ValueError(
            f"config.json cuts images of {height} × {width} into patches of {patch_size} × "
            f"{other_side}: they must be squares that fill the image."
        )
    return (height, width, channels), patch_size


def _pair(size: Any) -> tuple[Any, Any]:
    """Returns (height, width) of a setting that may be one number for both."""
    return tuple(size) if isinstance(size, list) and len(size) == 2 else (size, size)


def _entries(config: Config, prefix: str, *, has_classes: bool) -> list[Entry]:
    """Returns the table of names; prefix: of the tensors, which ViTModel has not."""
    table = [
        Entry("class_token", f"{prefix}embeddings.cls_token"),
        Entry("positions/table", f"{prefix}embeddings.position_embeddings"),
        *dense(
            "patches", f"{prefix}embeddings.patch_embeddings.projection", Style(transposed=False)
        ),
        *layers(config.model.num_layers, "encoder/layer_", f"{prefix}encoder.layer.#.", LAYER),
        *layer_norm("encoder/last_norm", f"{prefix}layernorm"),
    ]
    table += dense("pooler/dense", POOLER) if config.model.pooling == "pooler" else []
    return table + (dense("classes", CLASSES) if has_classes else [])


def _read_params(
    config: Config, settings: Mapping[str, Any], tensors: name_table.Tensors
) -> FlatParams:
    """Returns our parameters of their tensors; the kernel of the patches is theirs."""
    prefix = name_table.prefix_in(tensors, "vit.")
    table = _entries(config, prefix, has_classes=f"{CLASSES}.weight" in tensors)
    in_file = table
    if not settings.get("qkv_bias", True):
        in_file = [entry for entry in table if not entry.theirs.endswith(PROJECTION_BIASES)]
    params = name_table.read(in_file, tensors)
    params |= name_table.zero_biases(params, table)
    for name in ("class_token", "positions/table"):
        params[name] = params[name][0]
    params["class_token"] = params["class_token"][0]
    return params


def fold_pixels(params: FlatParams, channels: int, pixels: Mapping[str, Any]) -> FlatParams:
    """Returns the parameters with a kernel for our patches, whose pixels go from 0 to 1.

    Theirs [D, C, P, P] takes (x · rescale_factor - mean) / std of pixels x from 0 to 255, ours
    [P · P · C, D] takes x / 255. pixels: the settings that say so, in preprocessor_config.json.
    """
    mean, std, scale = np.zeros(channels), np.ones(channels), 255.0
    names = (
        [f"image_{name}" for name in ("mean", "std")] if pixels.get("do_normalize", True) else []
    )
    try:
        if names:
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
    return params | {name: array.astype(np.float32) for name, array in folded.items()}
