"""What the folders of BERT and GPT-2 have in common: one Stack, and one table of tokens."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.files.storage import PathLike
from transformer.interop.huggingface.tokens import TOKENS, write_tokenizer
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.folds import position_table
from transformer.interop.weights.name_table import Entry, zero_biases
from transformer.interop.writing import render, write_files

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
    return config


def untie(model: ModelConfig, params: FlatParams) -> tuple[FlatParams, np.ndarray | None]:
    """Returns (the parameters with the table that is looked up, the table of the softmax).

    The second is None if they are one. Ours are one too, but looked up times √d_model.
    """
    if not model.scale_embedding:
        return params, None
    table = params[TOKENS[0]]
    return params | {TOKENS[0]: table * np.float32(model.d_model**0.5)}, table


def tie(model: ModelConfig, params: FlatParams, softmax: np.ndarray, name: str) -> None:
    """Makes one table of the two that `untie` made; changes `model` and `params`.

    softmax: the table of the tensor `name`. Raises ValueError for any other pair of tables.
    """
    if np.array_equal(params[TOKENS[0]], softmax):
        return
    if not np.array_equal(params[TOKENS[0]], softmax * np.float32(model.d_model**0.5)):
        raise ValueError(
            f"The tensor {name} is another table than that of the embeddings, and no model of this "
            f"package has two: import the model as it was before its tables were untied."
        )
    params[TOKENS[0]], model.scale_embedding = softmax.astype(np.float32), True


def complete(config: Config, params: FlatParams, entries: Iterable[Entry]) -> FlatParams:
    """Returns the parameters with what theirs have besides: biases of zero, learned positions."""
    params, model = dict(params), config.model
    if model.positions != "learned":
        length = max(SHORTEST_TABLE, config.data.row_length)
        params[POSITIONS] = position_table(model, params, "source", length)
    return params | zero_biases(params, entries)


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
    readme = render("huggingface/one_stack.md.jinja", kind=kind, notes=notes)
    write_files(folder, {"README.md": readme})
    return notes
