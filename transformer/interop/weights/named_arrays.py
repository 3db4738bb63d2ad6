"""Writes the parameters of a run as named arrays that any language reads, with their description.

params.safetensors  the arrays: names as the modules of the model, joined by "/"
config.json         the configuration
tokenizer.*         the vocabularies; classes.json: the names of the classes
README.md           every array's shape, and what the names mean
"""

from typing import Any

import jax
import numpy as np
from etils.epath import PathLike
from flax.traverse_util import flatten_dict

from transformer.checkpoint.export import save_vocabularies
from transformer.checkpoint.restore import Run
from transformer.files.storage import write_atomically
from transformer.interop.weights.files import save_tensors
from transformer.interop.writing import render
from transformer.optional_libraries import require
from transformer.workdir import WorkDir

FILE = "params.safetensors"


def export_parameters(restored: Run, folder: PathLike) -> str:
    """Writes the parameters of a run of any task; returns a sentence that says what it wrote.

    Raises ValueError if safetensors is not installed.
    """
    require("safetensors")
    target = WorkDir(folder)
    target.path.mkdir(parents=True, exist_ok=True)
    params = flat_parameters(restored.params)
    save_tensors(target.path / FILE, params)
    vocabularies = save_vocabularies(target, restored.tokenizers, restored.labels)
    readme = render(
        "named_arrays.md.jinja",
        name=target.path.name,
        checkpoint=restored.checkpoint,
        task=restored.config.task,
        vocabularies=", ".join(vocabularies) or "none",
        arrays=params,
    )
    write_atomically(target.path / "README.md", readme)
    target.save_config(restored.config)
    return f"{restored.checkpoint} of {restored.workdir.path} as {len(params):,} named arrays"


def flat_parameters(params: Any) -> dict[str, np.ndarray]:
    """Returns nested parameters as arrays by name: "encoder/layer_0/feed_forward/inner/bias"."""
    flat: dict[str, Any] = flatten_dict(params, sep="/")
    return {name: np.asarray(jax.device_get(flat[name])) for name in sorted(flat)}
