"""Names and layouts of arrays, ours beside another system's: one table serves both directions.

PyTorch's Linear holds [out, in], a kernel of Flax [in, out].
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.portable_model import FlatParams

Tensors = Mapping[str, np.ndarray]  # of another system, by its names; perhaps read when asked for


class Entry(NamedTuple):
    """An array of ours, and where it lies in another system.

    transposed: whether theirs is the transpose of ours. Several of ours may have one `theirs`,
    where they lie side by side along the last axis of ours, in the order of the table: GPT-2's
    c_attn [D, 3D] is query, key and value.
    """

    ours: str
    theirs: str
    transposed: bool = False


class Style(NamedTuple):
    """How a system names and lays out the arrays of dense layers and of layer normalisations.

    transposed: whether its matrices are [out, in]. first: the number of its first layer.
    """

    kernel: str = "weight"
    bias: str = "bias"
    scale: str = "weight"
    shift: str = "bias"
    transposed: bool = True
    first: int = 0


PYTORCH = Style()
GAMMA_BETA = Style(scale="gamma", shift="beta")


def modules(names: Mapping[str, str], style: Style = PYTORCH, num_layers: int = 0) -> list[Entry]:
    """Returns the entries of dense layers and of layer normalisations; ours have "norm" in names.

    names: theirs by ours. A # in both stands for the number of each layer, as in "h.#.mlp"; a {}
    in theirs for what `style` calls an array, as in "self_{}q", which else comes behind a dot.
    """
    entries: list[Entry] = []
    for ours, theirs in names.items():
        theirs = theirs if "{}" in theirs else f"{theirs}.{{}}"
        for i in range(num_layers if "#" in ours else 1):
            owner, name = ours.replace("#", str(i)), theirs.replace("#", str(style.first + i))
            if "norm" in owner.rpartition("/")[2].lower():
                entries.append(Entry(f"{owner}/scale", name.format(style.scale)))
                entries.append(Entry(f"{owner}/bias", name.format(style.shift)))
            else:
                kernel = f"{owner}/kernel", name.format(style.kernel)
                entries.append(Entry(*kernel, style.transposed))
                entries.append(Entry(f"{owner}/bias", name.format(style.bias)))
    return entries


def layers(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """Returns a table for `modules` of names within a layer, and of what stands before them."""
    return {f"{ours}{name}": f"{theirs}{other}" for name, other in names.items()}


def translation_stacks(
    model: ModelConfig,
    layer: str,
    names: Mapping[str, str],
    embedding_norm: str,
    last_norm: str,
    style: Style = PYTORCH,
) -> list[Entry]:
    """Returns the entries of the encoder and the decoder of a translation model.

    layer: what the names of a layer begin with; in all of theirs @ stands for encoder or decoder.
    names: those of a layer of the decoder.
    """
    table: list[Entry] = []
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        own = layers(f"{stack}/layer_#/", layer, names)
        if stack == "encoder":
            own = {ours: name for ours, name in own.items() if "/encoder_" not in ours}
        if model.embedding_norm:
            own[f"{side}_norm"] = embedding_norm
        if model.norm == "pre":
            own[f"{stack}/last_norm"] = last_norm
        own = {ours: name.replace("@", stack) for ours, name in own.items()}
        table += modules(own, style, model.depth(is_decoder=stack == "decoder"))
    return table


def _by_tensor(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.theirs, []).append(entry)
    return groups


def read(
    entries: Iterable[Entry],
    tensors: Tensors,
    *,
    prefix: str = "",
    ignored: Collection[str] = (),
    change: Callable[[str, np.ndarray], np.ndarray] = lambda name, array: array,
) -> FlatParams:
    """Returns our arrays, float32, of their tensors.

    prefix: what their names begin with in the table, but in no file of a bare model. ignored: names
    of tensors that hold nothing of their own, as a second copy of a table. change: what becomes of
    each array of ours, by name, before the next tensor is read: a large model is never in memory
    twice. Raises ValueError, naming it, for a tensor that is missing, of integers, not finite or
    unknown to the table.
    """
    if not any(name.startswith(prefix) for name in tensors):
        entries = [entry._replace(theirs=entry.theirs.removeprefix(prefix)) for entry in entries]
        ignored = [name.removeprefix(prefix) for name in ignored]
    groups = _by_tensor(entries)
    problems = {
        "missing, of damaged files or another model": groups.keys() - tensors.keys(),
        "unknown, of a model of another kind": tensors.keys() - groups.keys() - {*ignored},
    }
    for problem, names in problems.items():
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ValueError(f"Tensors are {problem}: {', '.join(sorted(names)[:3])}{more}.")
    params: FlatParams = {}
    for name, group in groups.items():
        tensor = np.atleast_1d(tensors[name])
        if tensor.dtype.kind in "iub":
            raise ValueError(f"{name} is {tensor.dtype}: take the file of before quantisation.")
        tensor = tensor.T if group[0].transposed else tensor
        width, rest = divmod(tensor.shape[-1], len(group))
        if rest:
            raise ValueError(f"{name} {tensor.shape} does not divide into {len(group)} parts.")
        for i, entry in enumerate(group):
            part = np.ascontiguousarray(tensor[..., i * width : (i + 1) * width], np.float32)
            if not np.isfinite(part).all():
                raise ValueError(f"{name} has numbers that are NaN or infinite.")
            params[entry.ours] = change(entry.ours, part)
    return params


def write(entries: Iterable[Entry], params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns their tensors of our arrays, which may be views: the inverse of `read`.

    Raises KeyError if an array is missing, and ValueError, naming it, for one that is left over.
    """
    groups = _by_tensor(entries)
    if left := params.keys() - {entry.ours for group in groups.values() for entry in group}:
        raise ValueError(f"The other system has nothing for {', '.join(sorted(left))}.")
    tensors = {}
    for name, group in groups.items():
        arrays = [params[entry.ours] for entry in group]
        array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, -1)
        tensors[name] = array.T if group[0].transposed else array
    return tensors


def zero_biases(params: Mapping[str, np.ndarray], entries: Iterable[Entry]) -> FlatParams:
    """Returns the biases of `entries` that the parameters lack, all zero.

    That of a kernel [in, out] is [out], that of a table of tokens [V, D] is [V].
    """
    zeros: FlatParams = {}
    for name in {entry.ours for entry in entries} - params.keys():
        owner, _, kind = name.rpartition("/")
        if kind == "bias":
            kernel = params.get(f"{owner}/kernel")
            width = len(params[f"{owner}/table"]) if kernel is None else kernel.shape[1]
            zeros[name] = np.zeros(width, np.float32)
    return zeros
