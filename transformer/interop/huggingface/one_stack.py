"""What the folders of models with one Stack have in common: one table of tokens, names, positions.

A family is a table of settings, a table of names and a tokenizer; these functions do the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.tokens import write_tokenizer
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.weights import name_table
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.folds import position_table
from transformer.interop.weights.name_table import Entry, Tensors
from transformer.interop.writing import render, write_files

TABLE, BIAS = "tokens/table/table", "tokens/table/bias"  # what has a row per id
POSITIONS = "tokens/positions/table"
SHORTEST_TABLE = 512  # positions that are written of sinusoids


def stack_config(task: str, **model: Any) -> Config:
    """Returns the configuration of an imported run; model: settings of `ModelConfig`."""
    common = ModelConfig(positions="learned", projection_bias=True, scale_embedding=False)
    config = Config(task=task, model=replace(common, **model))
    if task != "images":
        config.tokenizer.kind = "imported"
        config.data.row_length = config.model.max_positions
    config.training.label_smoothing = 0.0  # none of them was trained with it
    return config.validate()


def read_params(
    model: ModelConfig,
    table: Sequence[Entry],
    tensors: Tensors,
    num_tokens: int,
    *,
    prefix: str,
    softmax: str,
    ignored: Collection[str],
) -> tuple[FlatParams, list[str]]:
    """Returns (our parameters, notes) of a model of text, with a row for each token.

    softmax: the tensor with a copy of the table of tokens, if there is one; it may also be that
    table by √d_model, as `write_params` writes it, which changes `model`. prefix, ignored: as of
    `name_table.read`. Raises ValueError if the table lacks a row.
    """
    params = name_table.read(table, tensors, prefix=prefix, ignored=[softmax, *ignored])
    if softmax in tensors and not np.array_equal(params[TABLE], tensors[softmax]):
        own = tensors[softmax].astype(np.float32)
        if not np.array_equal(params[TABLE], own * np.float32(model.d_model**0.5)):
            raise ValueError(
                f"The tensor {softmax} is another table than that of the embeddings, and no model "
                f"of this package has two: import the model as it was before they were untied."
            )
        params[TABLE], model.scale_embedding = own, True
    rows = len(params[TABLE])
    if rows < num_tokens:
        raise ValueError(f"The tokenizer has {num_tokens} tokens, the model rows for {rows}.")
    params |= {name: params[name][:num_tokens] for name in (TABLE, BIAS) if name in params}
    # There can be more rows, so that their number is a multiple of 64.
    notes = [f"{rows - num_tokens} rows of the embedding stand for no token: left out."]
    return params, notes if rows > num_tokens else []


def write_params(
    config: Config, params: FlatParams, table: Sequence[Entry], softmax: str
) -> dict[str, np.ndarray]:
    """Returns their tensors, with what theirs have besides: biases of zero, learned positions.

    Ours look up the table of the softmax times √d_model, and theirs as it is: in that case they
    have a tensor `softmax` besides.
    """
    params, model = dict(params), config.model
    if model.positions != "learned":
        length = max(SHORTEST_TABLE, config.data.row_length)
        params[POSITIONS] = position_table(model, params, POSITIONS, length)
    params |= name_table.zero_biases(params, table)
    own = params[TABLE]
    if not model.scale_embedding:
        return name_table.write(table, params)
    params[TABLE] = own * np.float32(model.d_model**0.5)
    return name_table.write(table, params) | {softmax: own}


def write_folder(
    folder: PathLike,
    model: PortableModel,
    settings: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    notes: Sequence[str],
) -> list[str]:
    """Writes weights, settings, tokenizer and a README.md; returns the notes that this holds."""
    folder = epath.Path(folder)
    write_files(folder, {"config.json": {**settings, "dtype": "float32"}})
    longest = {"model_max_length": model.config.data.row_length}
    notes = [*notes, *write_tokenizer(folder, model.tokenizers[0], longest)]
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    kind = settings["architectures"][0]
    readme = render("one_stack.md.jinja", kind=kind, notes=notes)
    write_files(folder, {"README.md": readme})
    return notes
