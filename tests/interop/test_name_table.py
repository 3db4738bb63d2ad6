"""One table of names, read in both directions."""

import numpy as np
import pytest

from transformer.interop.weights.name_table import Entry, dense, layer_norm, read, write

TABLE = [
    *dense("layer/query", "attn.c", transposed=False, part=(0, 2)),
    *dense("layer/key", "attn.c", transposed=False, part=(1, 2)),
    Entry("layer/inner/kernel", "fc.weight", transposed=True),
    *layer_norm("layer/norm", "ln"),
]
RNG = np.random.default_rng(0)
THEIRS = {
    "attn.c.weight": RNG.normal(size=(3, 8)),
    "attn.c.bias": RNG.normal(size=8),
    "fc.weight": RNG.normal(size=(5, 3)),
    "ln.weight": RNG.normal(size=3),
    "ln.bias": RNG.normal(size=3),
}


def test_reading_and_writing_are_inverse():
    """Catches a transpose or a part that only one direction honours."""
    ours = read(TABLE, THEIRS)
    assert ours["layer/inner/kernel"].shape == (3, 5)
    np.testing.assert_array_equal(
        ours["layer/key/kernel"], THEIRS["attn.c.weight"][:, 4:].astype(np.float32)
    )
    back = write(TABLE, ours)
    assert back.keys() == THEIRS.keys()
    for name, tensor in THEIRS.items():
        np.testing.assert_array_equal(back[name], tensor.astype(np.float32))


def test_every_tensor_is_used_or_named():
    """Catches a part of a model that is dropped, or left as it was initialised, without a word."""
    with pytest.raises(ValueError, match=r"The tensor ln\.bias is missing"):
        read(TABLE, {name: THEIRS[name] for name in THEIRS if name != "ln.bias"})
    with pytest.raises(ValueError, match="The tensors a, b, c and 1 more are unknown"):
        read(TABLE, THEIRS | dict.fromkeys("abcd", np.zeros(1)))
    assert read(TABLE, THEIRS | {"copy": np.zeros(1)}, ignored=["copy"]).keys()
    with pytest.raises(ValueError, match="nothing for layer/outer/bias"):
        write(TABLE, read(TABLE, THEIRS) | {"layer/outer/bias": np.zeros(3)})


def test_uneven_parts_are_refused():
    """Catches a last axis that is cut short."""
    with pytest.raises(ValueError, match=r"attn.c.bias \(7,\) does not divide into 2"):
        read(TABLE, THEIRS | {"attn.c.bias": np.zeros(7)})


def test_integers_are_refused():
    """Catches quantised weights that are taken for the numbers that they stand for."""
    with pytest.raises(ValueError, match=r"ln\.bias is int8: take the file of before"):
        read(TABLE, THEIRS | {"ln.bias": np.zeros(3, np.int8)})
