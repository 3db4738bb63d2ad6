"""What the folders of models with one Stack have in common: one table of tokens, names, positions.

A family is a table of settings, a table of names and a tokenizer; these functions do the rest.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.config import Config, ModelConfig
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import Tokenizer
from transformer.files.storage import PathLike
from transformer.interop.huggingface.tokens import write_tokenizer
from transformer.interop.portable_model import FlatParams, PortableModel
from transformer.interop.settings import SettingsTable
from transformer.interop.weights import name_table
from transformer.interop.weights.files import save_tensors
from transformer.interop.weights.folds import position_table
from transformer.interop.weights.name_table import PYTORCH, Style, Tensors
from transformer.interop.writing import render, write_files
from transformer.registry import task_kind

TABLE, BIAS = "tokens/table/table", "tokens/table/bias"  # what has a row per id
POSITIONS = "tokens/positions/table"
SHORTEST_TABLE = 512  # positions that are written of sinusoids


class Family(NamedTuple):
    """A kind of models of text.

    names, style, prefix: of tensors, as `name_table` takes them. copies: what their softmax has,
    and which of our arrays that is.
    """

    settings: SettingsTable
    names: Mapping[str, str]
    prefix: str
    copies: Mapping[str, str]
    style: Style = PYTORCH


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
    family: Family,
    config: Config,
    tokenizer: Tokenizer,
    labels: Labels,
    tensors: Tensors,
    ignored: Collection[str],
) -> tuple[FlatParams, list[str]]:
    """Returns (our parameters, notes) of a model of text, with a row for each token.

    Its softmax may also be the table of tokens by √d_model, as `write_folder` writes it, which
    changes `config`. Raises ValueError if it is another one, or if the table lacks a row.
    """
    num_tokens, model = tokenizer.vocab_size, config.model
    arrays = name_table.array_names(config, (tokenizer, tokenizer), labels)
    table = name_table.entries(arrays, family.names, family.style)
    ignored = [*family.copies, *ignored]
    params = name_table.read(table, tensors, prefix=family.prefix, ignored=ignored)
    softmax = next(iter(family.copies))
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


def write_folder(
    family: Family,
    folder: PathLike,
    model: PortableModel,
    settings: Mapping[str, Any],
    notes: Sequence[str],
    **added: Any,
) -> list[str]:
    """Writes weights, settings, tokenizer and a README.md; returns the notes that this holds.

    Theirs have what ours may lack: biases, which are zero, learned positions, and the settings
    `added` of `ModelConfig`. Ours look up the table of the softmax times √d_model, and theirs as it
    is: in that case they have a softmax of their own. settings: besides those of the model.
    """
    folder, config, params = epath.Path(folder), model.config, dict(model.params)
    if config.model.positions != "learned":
        length = max(SHORTEST_TABLE, config.data.row_length)
        params[POSITIONS] = position_table(config.model, params, POSITIONS, length)
    places = {"positions": "learned", "max_positions": len(params[POSITIONS])}
    theirs = replace(config.model, projection_bias=True, **places, **added)
    arrays = name_table.array_names(replace(config, model=theirs), model.tokenizers, model.labels)
    table = name_table.entries(arrays, family.names, family.style)
    params |= name_table.zero_biases(params, table)
    softmax = {}
    if config.model.scale_embedding:
        if task_kind(config.task) != "classification":
            softmax = {copy: params[ours] for copy, ours in family.copies.items()}
        params[TABLE] = params[TABLE] * np.float32(theirs.d_model**0.5)
    tensors = name_table.write(table, params) | softmax
    rest = {"vocab_size": len(params[TABLE]), "tie_word_embeddings": not softmax}
    about = {**family.settings.write(theirs), **settings, **rest, "dtype": "float32"}
    notes = [*notes, *write_tokenizer(folder, model.tokenizers[0], config.data.row_length)]
    readme = render("one_stack.md.jinja", kind=settings["architectures"][0], notes=notes)
    write_files(folder, {"config.json": about, "README.md": readme})
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    return notes
