"""Writes the parameters of a run as named arrays that any language reads, with their description.

params.safetensors  the arrays: names as the modules of the model, joined by "/"
config.json         the configuration
tokenizer.*         the vocabularies; classes.json: the names of the classes
README.md           every array's shape and meaning
"""

import re
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
MEANINGS = {  # by the end of a name; the first that matches
    r"(query|key|value)/kernel": "projects to the {0} vectors of all heads, head after head",
    r"attention/output/kernel": "projects the results of all heads, head after head",
    r"inner/kernel": "W_1 of the feed-forward layer",
    r"inner/bias": "b_1 of the feed-forward layer",
    r"gate/(kernel|bias)": "V and c of the gate of the feed-forward layer",
    r"outer/kernel": "W_2 of the feed-forward layer",
    r"outer/bias": "b_2 of the feed-forward layer",
    r"alignment/\w+": "weights of the attention function",
    r"(LayerNorm_0|norm)/scale": "scale of a layer normalisation",
    r"(LayerNorm_0|norm)/bias": "shift of a layer normalisation",
    r"relative_positions/vectors": "row 16 + i is added to keys i positions after the query",
    r"relative_positions/biases": "row i is added to the logits, a number per head, of a range of "
    "keys before the query; row 32 + i of keys after it",
    r"positions/table": "row p is the vector of position p",
    r"softmax/table": "row i gives the score of token i",
    r"(shared_embedding|tokens/table)/table": "row i is token i: its vector, and for its score",
    r"embedding/table": "row i is the vector of token i",
    r"(embedding|softmax|table)/bias": "added to the score of each token",
    r"class_token": "the vector before the patches",
    r"kernel": "matrix of a dense layer",
    r"bias": "bias of a dense layer",
}


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
        meaning=meaning,
    )
    write_atomically(target.path / "README.md", readme)
    target.save_config(restored.config)
    return f"{restored.checkpoint} of {restored.workdir.path} as {len(params):,} named arrays"


def flat_parameters(params: Any) -> dict[str, np.ndarray]:
    """Returns nested parameters as arrays by name: "encoder/layer_0/feed_forward/inner/bias"."""
    flat: dict[str, Any] = flatten_dict(params, sep="/")
    return {name: np.asarray(jax.device_get(flat[name])) for name in sorted(flat)}


def meaning(name: str) -> str:
    """Returns what an array is for; that of a registered module says only where it belongs."""
    for pattern, meaning in MEANINGS.items():
        if match := re.search(f"(?:{pattern})$", name):
            return meaning.format(*match.groups())
    return f"{name.rpartition('/')[2]} of the module {name.rpartition('/')[0]}"
