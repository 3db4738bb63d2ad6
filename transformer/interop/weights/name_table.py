"""Names and layouts of arrays, ours beside another system's: one table serves both directions.

PyTorch's Linear holds [out, in], a kernel of Flax [in, out].
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from flax.traverse_util import flatten_dict

from transformer.checkpoint.restore import Run, abstract_params, smallest_batch
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import Tokenizer
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
LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/")


def array_names(
    config: Config, tokenizers: tuple[Tokenizer, ...], labels: Labels | None = None
) -> list[str]:
    """Returns the names of all arrays of a model of ours, as "encoder/last_norm/scale"."""
    run = Run.in_memory(config, tokenizers, labels)
    params = abstract_params(run.model, smallest_batch(config, run.labels))
    return [*flatten_dict(params, sep="/")]


def entries(arrays: Iterable[str], names: Mapping[str, str], style: Style = PYTORCH) -> list[Entry]:
    """Returns the entries of those arrays of ours that another system has.

    names: theirs by our name of an array, or of a module whose arrays are called as `style` says:
    at the place of {}, as in "self_{}q", or else behind a dot. Modules of a layer are named without
    it. Theirs begin with names["layer"], where @ stands for encoder or decoder, # for the number.

    >>> entries(["decoder/layer_0/feed_forward/inner/kernel"],
    ...         {"layer": "model.@.layers.#.", "feed_forward/inner": "fc1"})
    [Entry("decoder/layer_0/feed_forward/inner/kernel", "model.decoder.layers.0.fc1.weight", True)]
    """
    table, places = [], [*names]
    for array in arrays:
        layer = LAYER.match(array)
        module, _, kind = array[layer.end() if layer else 0 :].rpartition("/")
        if array in names:
            table.append((places.index(array), Entry(array, names[array])))
        elif module in names:
            theirs = names[module] if "{}" in names[module] else f"{names[module]}.{{}}"
            if layer:
                number = style.first + int(layer[2])
                before = names["layer"].replace("@", layer[1]).replace("#", str(number))
                theirs = before + theirs
            is_norm = "norm" in module.rpartition("/")[2].lower()
            bias = style.shift if is_norm else style.bias
            theirs = theirs.format(
                {"kernel": style.kernel, "scale": style.scale, "bias": bias}[kind]
            )
            entry = Entry(array, theirs, style.transposed and kind == "kernel")
            table.append((places.index(module), entry))
    return [entry for _, entry in sorted(table)]


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
    absent: tuple[str, ...] = (),
    change: Callable[[str, np.ndarray], np.ndarray] = lambda name, array: array,
) -> FlatParams:
    """Returns our arrays, float32, of their tensors.

    prefix: what their names begin with in the table, but in no file of a bare model. ignored: names
    of tensors that hold nothing of their own, as a second copy of a table. absent: ends of names of
    biases that the file lacks, which are zero. change: what becomes of each array of ours, by name,
    before the next tensor is read: a large model is never in memory twice. Raises ValueError,
    naming it, for a tensor that is missing, of integers, not finite or unknown to the table.
    """
    if not any(name.startswith(prefix) for name in tensors):
        entries = [entry._replace(theirs=entry.theirs.removeprefix(prefix)) for entry in entries]
        ignored = [name.removeprefix(prefix) for name in ignored]
    entries = [*entries]
    groups = _by_tensor(entry for entry in entries if not entry.theirs.endswith(absent))
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
    zeros = zero_biases(params, entries)
    return params | {name: change(name, array) for name, array in zeros.items()}


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
