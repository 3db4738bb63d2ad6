"""One table of names, read in both directions."""

import numpy as np
import pytest

from transformer.interop.weights.name_table import Entry, Style, modules, read, write

TABLE = [
    *modules({"layer/query": "attn.c", "layer/key": "attn.c"}, Style(transposed=False)),
    Entry("layer/inner/kernel", "fc.weight", transposed=True),
    *modules({"layer/norm": "ln"}),
]
RNG = np.random.default_rng(0)
SHAPES = {"attn.c.weight": (3, 8), "attn.c.bias": 8, "fc.weight": (5, 3), "ln.weight": 3}
THEIRS = {name: RNG.normal(size=shape) for name, shape in (SHAPES | {"ln.bias": 3}).items()}


def test_reading_and_writing_are_inverse():
    """Catches a transpose or a part that only one direction honours."""
    ours = read(TABLE, THEIRS)
    assert ours["layer/inner/kernel"].shape == (3, 5)
    key = THEIRS["attn.c.weight"][:, 4:].astype(np.float32)
    np.testing.assert_array_equal(ours["layer/key/kernel"], key)
    back = write(TABLE, ours)
    assert back.keys() == THEIRS.keys()
    for name, tensor in THEIRS.items():
        np.testing.assert_array_equal(back[name], tensor.astype(np.float32))


def test_names_of_layers():
    """Catches a layer that counts from 0 where theirs count from 1, and a word at another place."""
    style = Style("W", "b", "scale", "bias", first=1)
    names = {"layer_#/query": "l#_self_{}q", "layer_#/LayerNorm_0": "l#.ln"}
    table = {entry.ours: entry.theirs for entry in modules(names, style, 2)}
    assert len(table) == 8
    assert table["layer_0/query/kernel"] == "l1_self_Wq"
    assert table["layer_1/query/bias"] == "l2_self_bq"
    assert table["layer_1/LayerNorm_0/scale"] == "l2.ln.scale"


def test_every_tensor_is_used_or_named():
    """Catches a part of a model that is dropped, or left as it was initialised, without a word."""
    with pytest.raises(ValueError, match=r"missing, of damaged files or another model: ln\.bias\."):
        read(TABLE, {name: THEIRS[name] for name in THEIRS if name != "ln.bias"})
    with pytest.raises(ValueError, match=r"unknown, .*: a, b, c and 1 more"):
        read(TABLE, THEIRS | dict.fromkeys("abcd", np.zeros(1)))
    assert read(TABLE, THEIRS | {"copy": np.zeros(1)}, ignored=["copy"]).keys()
    with pytest.raises(ValueError, match="nothing for layer/outer/bias"):
        write(TABLE, read(TABLE, THEIRS) | {"layer/outer/bias": np.zeros(3)})


@pytest.mark.parametrize(
    ("changed", "message"),
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
