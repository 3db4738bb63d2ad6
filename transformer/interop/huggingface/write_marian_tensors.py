"""The parameters of a translation model as the tensors of MarianMT."""

from dataclasses import dataclass, replace

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.huggingface.seq2seq_names import POSITION_TABLES, entries
from transformer.interop.portable_model import SOFTMAX, TARGET, FlatParams, PortableModel
from transformer.interop.weights.folds import (
    NEVER,
    interleaved_columns,
    permute_model_axis,
    reorder_vocabulary,
)
from transformer.interop.weights.name_table import Entry, write, zero_biases
from transformer.interop.weights.positions import position_table
from transformer.interop.writing import vocabulary
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK


@dataclass(frozen=True)
class Ids:
    """Our id of each of theirs, for (source, target), and whether both have one vocabulary."""

    source: list[int]
    target: list[int]
    are_shared: bool

    def theirs(self, token: int) -> int | None:
        """Returns their id of a target's control token of ours, None if they have none."""
        return self.target.index(token) if token in self.target else None


def order_ids(model: PortableModel, start: str) -> Ids:
    """Returns which id of ours each of theirs is; only start="token" has <s>.

    With one vocabulary <pad> is last, as in the published models; with two, which may differ in
    size, it must have the same id in both.
    """
    source, target = (vocabulary(tokenizer) for tokenizer in model.tokenizers)
    starts = [BOS] if start == "token" else []
    rest = range(NUM_SPECIAL, len(target))
    if source == target:
        order = [EOS, UNK, *starts, *rest, PAD]
        return Ids(order, order, are_shared=True)
    source_order = [EOS, UNK, PAD, *range(NUM_SPECIAL, len(source))]
    return Ids(source_order, [EOS, UNK, PAD, *starts, *rest], are_shared=False)


def marian_tensors(
    model: PortableModel, ids: Ids, start: str, num_positions: int
) -> dict[str, np.ndarray]:
    """Returns all tensors by their names; `start` as `save_marian` takes it."""
    config = replace(model.config.model, projection_bias=True, output_bias=True)
    params = {name: np.asarray(array, np.float32) for name, array in model.params.items()}
    params |= zero_biases(params, entries(config))
    has_folded = start == "zero" and bool(_start_vector(config, params).any())
    table = _table_of_names(config, has_folded=has_folded)
    if config.positions != "sinusoidal" or has_folded:
        for side in ("source", "target"):
            params[f"{side}_positions/table"] = position_table(config, params, side, num_positions)
    if start == "zero":
        _fold_start(config, params)
    known = {entry.ours for entry in table}
    params = {name: params[name] for name in known}
    if config.positions == "sinusoidal":
        columns = np.argsort(interleaved_columns(config.d_model))
        params = permute_model_axis(params, columns)
    orders = ids.source, ids.target
    params = {name: reorder_vocabulary(name, params[name], orders) for name in params}
    tensors = write(table, params)
    tensors["final_logits_bias"] = tensors["final_logits_bias"][None]
    return tensors


def _table_of_names(config: ModelConfig, *, has_folded: bool) -> list[Entry]:
    """Returns the table of names, with the positions that MarianMT cannot compute."""
    if config.positions != "sinusoidal":
        return entries(replace(config, positions="learned"))
    folded = [Entry("target_positions/table", POSITION_TABLES[1])] if has_folded else []
    return [*entries(config), *folded]


def _start_vector(config: ModelConfig, params: FlatParams) -> np.ndarray:
    """Returns what the decoder starts with before the vector of its position is added, [D]."""
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    return scale * params[f"{TARGET[config.embedding_sharing]}/table"][BOS]


def _fold_start(config: ModelConfig, params: FlatParams) -> None:
    """Lets a row of zeros, <pad>, start the decoder: its first position takes over the vector.

    Nothing but the start stands there. <pad> is no longer scored, nor is <s>, which is left out: a
    trained model gives both next to no probability.
    """
    if (vector := _start_vector(config, params)).any():
        positions = params["target_positions/table"].copy()
        positions[0] += vector
        params["target_positions/table"] = positions
    sharing = config.embedding_sharing
    for name, row in ((f"{TARGET[sharing]}/table", 0.0), (f"{SOFTMAX[sharing]}/bias", NEVER)):
        params[name] = params[name].copy()
        params[name][PAD] = row
