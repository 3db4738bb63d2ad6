"""Models that readers of foreign folders return, ready to compute; and copies of golden folders."""

import dataclasses
import io
import json
import pathlib
import shutil
from contextlib import redirect_stdout

import jax.numpy as jnp
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import load_file, save_file

from tests.helpers.tiny_models import random_params
from transformer.checkpoint.restore import Run, check_shapes, make_model, smallest_batch
from transformer.interop import import_model
from transformer.interop.portable_model import PortableModel

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def build(imported):
    """(model, its parameters), after a check of every name and shape."""
    model = make_model(imported.config, imported.tokenizers, imported.labels)
    params = unflatten_dict(imported.params, sep="/")
    check_shapes(model, smallest_batch(imported.config, imported.labels), params)
    return model, params


def assert_equal(found, expected):
    """Two imported models are the same run."""
    assert (found.config, found.labels) == (expected.config, expected.labels)
    assert found.params.keys() == expected.params.keys()
    for name, array in expected.params.items():
        np.testing.assert_array_equal(found.params[name], array, name)


def as_run(imported):
    """A model in memory, as `Translator` and its like take it."""
    params = build(imported)[1]
    return Run.in_memory(imported.config, imported.tokenizers, imported.labels, params)


def compute(imported, inputs):
    """The logits of a model."""
    model, params = build(imported)
    return np.asarray(model.apply({"params": params}, jnp.asarray(inputs), deterministic=True))


def random_model(config, tokenizers, labels):
    """A model of ours with random parameters, as a reader would return it."""
    model = make_model(config, tokenizers, labels)
    params = random_params(model.init, smallest_batch(config, labels), deterministic=True)
    flat = {name: np.asarray(array) for name, array in flatten_dict(params, sep="/").items()}
    return PortableModel(config, flat, tokenizers, labels)


def changed_folder(source, folder, *, rename=lambda name: name, add=(), drop=(), **settings):
    """A copy of a golden folder with other tensors and other settings in config.json.

    rename: the new name of a tensor, None leaves it out; drop: names of settings to leave out.
    """
    shutil.copytree(source, folder)
    file = folder / "model.safetensors"
    tensors = {rename(name): tensor for name, tensor in load_file(file).items()}
    tensors.pop(None, None)
    save_file(tensors | dict(add), file)
    path = folder / "config.json"
    config = json.loads(path.read_text()) | settings
    path.write_text(json.dumps({name: config[name] for name in config if name not in drop}))
    return folder


def write_run(imported, folder):
    """Writes the work directory of an imported model; returns it."""
    used_up = dataclasses.replace(imported, params=dict(imported.params))
    import_model.write_run(used_up, folder)
    return folder


def run_readme(folder, monkeypatch):
    """The lines that the program in README.md prints."""
    monkeypatch.chdir(folder)
    program, printed = (folder / "README.md").read_text().split("```")[1], io.StringIO()
    with redirect_stdout(printed):
        exec(program.removeprefix("python\n"), {})
    return printed.getvalue().removesuffix("\n").split("\n")
