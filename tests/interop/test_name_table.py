"""One table of names, read in both directions."""

import numpy as np
import pytest

from transformer.interop.weights.name_table import Entry, Style, dense, layer_norm, read, write

TABLE = [
    *dense("layer/query", "attn.c", Style(transposed=False), part=(0, 2)),
    *dense("layer/key", "attn.c", Style(transposed=False), part=(1, 2)),
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


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"attn.c.bias": np.zeros(7)}, r"attn.c.bias \(7,\) does not divide into 2"),
        ({"ln.bias": np.zeros(3, np.int8)}, r"ln\.bias is int8: take the file of before"),
        ({"ln.bias": np.array([0, np.nan, 1])}, r"ln\.bias has numbers that are NaN or infinite"),
        ({"ln.bias": np.array([0, np.inf, 1])}, r"ln\.bias has numbers that are NaN or infinite"),
    ],
)
def test_tensors_that_cannot_be_right_are_refused(changed, message):
    """Catches a last axis that is cut short, quantised weights, and a damaged file."""
    with pytest.raises(ValueError, match=message):
        read(TABLE, THEIRS | changed)
