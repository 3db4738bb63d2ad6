"""Names and layouts of arrays, ours beside another system's: one table serves both directions.

PyTorch's Linear holds [out, in], a kernel of Flax [in, out].
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from transformer.interop.portable_model import FlatParams

Tensors = Mapping[str, np.ndarray]  # of another system, by its names; perhaps read when asked for


@dataclass(frozen=True)
class Entry:
    """An array of ours, and where it lies in another system.

    transposed: whether theirs is the transpose of ours.
    part: (index, count) where theirs holds `count` of ours, one after another along its last axis:
        GPT-2's c_attn [D, 3D] is query (0, 3), key (1, 3) and value (2, 3).
    """

    ours: str
    theirs: str
    transposed: bool = False
    part: tuple[int, int] = (0, 1)


def dense(
    ours: str,
    theirs: str,
    *,
    bias: bool = True,
    transposed: bool = True,
    part: tuple[int, int] = (0, 1),
) -> list[Entry]:
    """Returns the entries of a dense layer: kernel and bias, which they call weight and bias."""
    kernel = Entry(f"{ours}/kernel", f"{theirs}.weight", transposed, part)
    return [kernel, Entry(f"{ours}/bias", f"{theirs}.bias", part=part)] if bias else [kernel]


def layer_norm(ours: str, theirs: str) -> list[Entry]:
    """Returns the entries of a layer normalisation, whose scale they call weight."""
    return [Entry(f"{ours}/scale", f"{theirs}.weight"), Entry(f"{ours}/bias", f"{theirs}.bias")]


def layers(
    count: int, ours: str, theirs: str, names: Mapping[str, str], *, transposed: bool = True
) -> list[Entry]:
    """Returns the entries of the layers of a Stack.

    ours, theirs: what precedes the number of a layer, as "encoder/layer_" and "encoder.layer.".
    names: their part of a layer for each part of ours; all have biases, and all but those that are
    named LayerNorm_0 are dense layers.
    """
    entries: list[Entry] = []
    for i in range(count):
        for part, theirs_part in names.items():
            pair = f"{ours}{i}/{part}", f"{theirs}{i}.{theirs_part}"
            is_norm = part.endswith("LayerNorm_0")
            entries += layer_norm(*pair) if is_norm else dense(*pair, transposed=transposed)
    return entries


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
        entry.ours: change(entry.ours, _ours(entry, tensors[entry.theirs])) for entry in entries
    }


def _listed(names: Sequence[str]) -> str:
    """Returns "The tensor a is" or "The tensors a, b, c and 7 more are"."""
    if len(names) == 1:
        return f"The tensor {names[0]} is"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"The tensors {', '.join(names[:3])}{more} are"


def _ours(entry: Entry, tensor: np.ndarray) -> np.ndarray:
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
    part = tensor[..., index * width : (index + 1) * width]
    array = np.ascontiguousarray(part, np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"The tensor {entry.theirs} has numbers that are NaN or infinite.")
    return array


def write(entries: Iterable[Entry], params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns their tensors of our arrays, which may be views: the inverse of `read`.

    Raises KeyError if an array is missing, and ValueError, naming it, for one that is left over.
    """
    parts: dict[str, dict[int, np.ndarray]] = {}
    left = set(params)
    for entry in entries:
        parts.setdefault(entry.theirs, {})[entry.part[0]] = (
            params[entry.ours].T if entry.transposed else params[entry.ours]
        )
        left.discard(entry.ours)
    if left:
        raise ValueError(f"The other system has nothing for {', '.join(sorted(left))}.")
    return {
        name: of[0] if len(of) == 1 else np.concatenate([of[i] for i in sorted(of)], axis=-1)
        for name, of in parts.items()
    }


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
