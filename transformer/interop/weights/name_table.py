"""Names and layouts of arrays, ours beside another system's: one table serves both directions.

PyTorch's Linear holds [out, in], a kernel of Flax [in, out].
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.portable_model import FlatParams

Tensors = Mapping[str, np.ndarray]  # of another system, by its names; perhaps read when asked for


@dataclass(frozen=True)
class Entry:
    """An array of ours, and where it lies in another system.

    transposed: whether theirs is the transpose of ours.
    part: (index, count) where theirs holds `count` of ours, side by side along the last axis of
        ours: GPT-2's c_attn [D, 3D] is query (0, 3), key (1, 3) and value (2, 3).
    """

    ours: str
    theirs: str
    transposed: bool = False
    part: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Style:
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


def _named(theirs: str, word: str) -> str:
    return theirs.format(word) if "{}" in theirs else f"{theirs}.{word}"


def dense(
    ours: str, theirs: str, style: Style = PYTORCH, part: tuple[int, int] = (0, 1)
) -> list[Entry]:
    """Returns the entries of a dense layer; theirs: "fc1", or "self_{}q", {} being the word."""
    return [
        Entry(f"{ours}/kernel", _named(theirs, style.kernel), style.transposed, part),
        Entry(f"{ours}/bias", _named(theirs, style.bias), part=part),
    ]


def layer_norm(ours: str, theirs: str, style: Style = PYTORCH) -> list[Entry]:
    """Returns the entries of a layer normalisation, with `theirs` as in `dense`."""
    return [
        Entry(f"{ours}/scale", _named(theirs, style.scale)),
        Entry(f"{ours}/bias", _named(theirs, style.shift)),
    ]


def layers(
    count: int, ours: str, theirs: str, names: Mapping[str, str], style: Style = PYTORCH
) -> list[Entry]:
    """Returns the entries of the layers of a Stack.

    ours, theirs: what a name begins with; in theirs # stands for the number of the layer, as in
    "encoder.layer.#.".
    names: their part of a layer for each part of ours; all have biases, and all but those that are
    named LayerNorm_0 are dense layers. Parts with one name lie side by side in one array.
    """
    entries: list[Entry] = []
    for i in range(count):
        for part, theirs_part in names.items():
            pair = f"{ours}{i}/{part}", f"{theirs}{theirs_part}".replace("#", str(style.first + i))
            if part.endswith("LayerNorm_0"):
                entries += layer_norm(*pair, style)
            else:
                beside = [other for other, name in names.items() if name == theirs_part]
                entries += dense(*pair, style, part=(beside.index(part), len(beside)))
    return entries


def translation_stacks(
    model: ModelConfig,
    layer: str,
    names: Mapping[str, str],
    embedding_norm: str,
    last_norm: str,
    style: Style = PYTORCH,
) -> list[Entry]:
    """Returns the entries of the encoder and the decoder of a translation model.

    layer: what the names of a layer begin with, as `layers` takes it; in all of their names @
    stands for encoder or decoder. names: those of a layer of the decoder.
    """
    table: list[Entry] = []
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        is_decoder = stack == "decoder"
        own = {part: names[part] for part in names if is_decoder or not part.startswith("encoder_")}
        depth = model.depth(is_decoder=is_decoder)
        entries = layers(depth, f"{stack}/layer_", layer, own, style)
        if model.embedding_norm:
            entries += layer_norm(f"{side}_norm", embedding_norm, style)
        if model.norm == "pre":
            entries += layer_norm(f"{stack}/last_norm", last_norm, style)
        table += [replace(entry, theirs=entry.theirs.replace("@", stack)) for entry in entries]
    return table


def prefix_in(tensors: Tensors, prefix: str) -> str:
    """Returns `prefix` if names begin with it, else "": in a file of the bare model none does."""
    return prefix if any(name.startswith(prefix) for name in tensors) else ""


def read(
    entries: Sequence[Entry],
    tensors: Tensors,
    *,
    ignored: Collection[str] = (),
    change: Callable[[str, np.ndarray], np.ndarray] = lambda name, array: array,
) -> FlatParams:
    """Returns our arrays, float32, of their tensors.

    ignored: names of tensors that hold nothing of their own, as a second copy of a table. change:
    what becomes of each array of ours, by name, before the next one is read: a large model is never
    in memory twice. Raises ValueError, naming it, for a tensor that is missing, of integers, not
    finite or unknown to the table.
    """
    wanted = {entry.theirs for entry in entries}
    if missing := sorted(wanted - tensors.keys()):
        raise ValueError(
            f"{_listed(missing)} missing: the files are incomplete, or of another model."
        )
    if unknown := sorted(tensors.keys() - wanted - set(ignored)):
        raise ValueError(f"{_listed(unknown)} unknown: this is a model of another kind.")
    return {
        entry.ours: change(entry.ours, _read_entry(entry, tensors[entry.theirs]))
        for entry in entries
    }


def _listed(names: Sequence[str]) -> str:
    """Returns "The tensor a is" or "The tensors a, b, c and 7 more are"."""
    if len(names) == 1:
        return f"The tensor {names[0]} is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"The tensors {', '.join(names[:3])}{more} are"


def _read_entry(entry: Entry, tensor: np.ndarray) -> np.ndarray:
    """Returns our array of their tensor: [out, in] -> [in, out] if transposed."""
    if tensor.dtype.kind in "iub":
        raise ValueError(
            f"The tensor {entry.theirs} is {tensor.dtype}: take the file of before quantisation."
        )
    tensor = tensor.T if entry.transposed else tensor
    index, count = entry.part
    if tensor.shape[-1] % count:
        raise ValueError(
            f"The tensor {entry.theirs} {tensor.shape} does not divide into {count} equal parts."
        )
    width = tensor.shape[-1] // count
    array = np.ascontiguousarray(tensor[..., index * width : (index + 1) * width], np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"The tensor {entry.theirs} has numbers that are NaN or infinite.")
    return array


def write(entries: Iterable[Entry], params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns their tensors of our arrays, which may be views: the inverse of `read`.

    Raises KeyError if an array is missing, and ValueError, naming it, for one that is left over.
    """
    entries = [*entries]
    if left := params.keys() - {entry.ours for entry in entries}:
        raise ValueError(f"The other system has nothing for {', '.join(sorted(left))}.")
    pieces: dict[str, dict[int, np.ndarray]] = {}
    for entry in entries:
        pieces.setdefault(entry.theirs, {})[entry.part[0]] = params[entry.ours]
    transposed = {entry.theirs for entry in entries if entry.transposed}
    tensors = {
        name: array[0] if len(array) == 1 else np.concatenate([array[i] for i in sorted(array)], -1)
        for name, array in pieces.items()
    }
    return {name: array.T if name in transposed else array for name, array in tensors.items()}


def zero_biases(params: Mapping[str, np.ndarray], entries: Iterable[Entry]) -> FlatParams:
    """Returns the biases of `entries` that the parameters lack, all zero.

    That of a kernel [in, out] is [out], that of a table of tokens [V, D] is [V].
    """
    missing = [entry.ours for entry in entries if entry.ours not in params]
    zeros = {}
    for owner in (name.removesuffix("/bias") for name in missing if name.endswith("/bias")):
        kernel = params.get(f"{owner}/kernel")
        width = len(params[f"{owner}/table"]) if kernel is None else kernel.shape[1]
        zeros[f"{owner}/bias"] = np.zeros(width, np.float32)
    return zeros
