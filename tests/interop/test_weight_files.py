"""Files of tensors: safetensors and PyTorch's, whole, in parts, damaged and malicious."""

import json
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open

from transformer.interop.weights.files import (
    TensorFiles,
    open_tensors,
    read_safetensors,
    save_tensors,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "pytorch"
TENSORS = {
    "flags": np.array([True, False, True]),
    "half": np.array([[0.5, -1.25]], np.float16),
    "brain": np.array([3.0, -2.0, 7.0], ml_dtypes.bfloat16),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
}


def assert_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        np.testing.assert_array_equal(found[name], tensor, name)


def header(dtype, shape, end):
    about = {"a": {"dtype": dtype, "shape": shape, "data_offsets": [0, end]}}
    encoded = json.dumps(about).encode()
    return len(encoded).to_bytes(8, "little") + encoded


def test_safetensors_come_back(tmp_path):
    """Catches a type, an order of axes, or an empty tensor that is not written as it is.

    Also a file that other accounts cannot read.
    """
    path, other = tmp_path / "model.safetensors", tmp_path / "other"
    save_tensors(path, TENSORS, {"format": "pt"})
    assert_equal(open_tensors(tmp_path), TENSORS)
    with safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt"}
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode


def test_a_file_of_pytorch_is_read_without_it():
    """Catches offsets, strides or shared storages that are taken wrong."""
    assert_equal(
        open_tensors(GOLDEN), TensorFiles(read_safetensors(GOLDEN / "expected.safetensors"))
    )


def test_a_model_in_parts(tmp_path):
    """Catches parts that are not all read, and an index that leads out of the folder."""
    index = {name: f"part{i % 2}.safetensors" for i, name in enumerate(TENSORS)}
    for part in set(index.values()):
        save_tensors(tmp_path / part, {n: TENSORS[n] for n in TENSORS if index[n] == part})

    def write(weight_map):
        content = json.dumps({"weight_map": weight_map})
        (tmp_path / "model.safetensors.index.json").write_text(content)

    write(index)
    assert_equal(open_tensors(tmp_path), TENSORS)
    for weight_map, expected in [
        (index | {"more": "part1.safetensors"}, "no file that it names holds more"),
        (index | {"more": "part2.safetensors"}, "part2.safetensors, which it names, is missing"),
        (index | {"more": "../part1.safetensors"}, "no index of files in its folder"),
        ([1], "no index of files in its folder"),
    ]:
        write(weight_map)
        with pytest.raises(ValueError, match=rf"index\.json is damaged .*{expected}"):
            open_tensors(tmp_path)


@pytest.mark.parametrize("length", [0, 5, 60, -1])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_that_is_cut_short(name, length, tmp_path):
    """Catches a part of a file that is taken for all of it."""
    whole = (GOLDEN / name.replace("model.s", "expected.s")).read_bytes()
    (tmp_path / name).write_bytes(whole[:length])
    with pytest.raises(ValueError, match=f"{name} is damaged or incomplete: .*;"):
        open_tensors(tmp_path)


@pytest.mark.parametrize(
    "content, expected",
    [
        (b"\xff" * 100, "describe its content"),
        ((2**40).to_bytes(8, "little") + b"{}", "describe its content"),
        (header("F32", [2**20] * 2, 2**42), "describe its content"),
        (header("F32", [3], 8) + bytes(8), "describe its content"),
        (header("F8_E4M3", [1], 1) + b"1", "not a of type F8_E4M3"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "pointer of Git LFS"),
    ],
)
def test_a_header_that_lies(content, expected, tmp_path):
    """Catches memory allocated, or other tensors' numbers read, because a file says so."""
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=rf"model\.safetensors.*{expected}"):
        open_tensors(tmp_path)


UNREADABLE = "list of tensors cannot be read"


class Call:
    """What a pickle turns into a call of a function."""

    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


with zipfile.ZipFile(GOLDEN / "pytorch_model.bin") as archive:
    CONTENTS = {n.removeprefix("pytorch_model/"): archive.read(n) for n in archive.namelist()}
NUMBERS = {"numbers": {name: CONTENTS[name] for name in CONTENTS if name.startswith("data/")}}


def golden_pickle(old=b"", new=b""):
    """The list of tensors of the golden file, with some bytes replaced."""
    assert old in CONTENTS["data.pkl"]
    return CONTENTS["data.pkl"].replace(old, new)


@pytest.mark.parametrize(
    "pickled, options, expected",
    [
        (pickle.dumps(Call(print, "run")), {}, "asks for builtins.print, .* is not run"),
        (pickle.dumps(Call(pickle.loads, b"")), {}, r"asks for _pickle.loads, .* is not run"),
        (pickle.dumps({"epoch": 3}), {}, "holds more than tensors"),
        (pickle.dumps(bytearray(5), 5), {}, UNREADABLE),
        (b"\x80\x05\x96" + (2**60).to_bytes(8, "little"), {}, UNREADABLE),
        (b"\x80\x02Nr\xff\xff\xff\x7f.", {}, "holds more than tensors"),  # memo of 2³¹ places
        (golden_pickle(), {}, UNREADABLE),  # the numbers are missing
        (golden_pickle(), {"compression": zipfile.ZIP_DEFLATED}, "it is compressed"),
        # Other bytes of the file than the tensor's own, and terabytes.
        (golden_pickle(b"K\x04K\x06", b"K\x04K\x07"), NUMBERS, UNREADABLE),
        (
            golden_pickle(b"K\x04K\x06", b"M\xff\xffM\xff\xff"),
            NUMBERS,
            UNREADABLE,
        ),
    ],
)
def test_a_pickle_runs_nothing(pickled, options, expected, tmp_path):
    """Catches a function called, other bytes shown or memory taken because a file says so."""
    options = dict(numbers={}, compression=zipfile.ZIP_STORED) | options
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", options["compression"]) as archive:
        for name, content in {"data.pkl": pickled, **options["numbers"]}.items():
            archive.writestr(f"archive/{name}", content)
    with pytest.raises(ValueError, match=rf"pytorch_model\.bin .*{expected}"):
        open_tensors(tmp_path)


def test_a_pickle_gives_a_tensor_no_state(tmp_path):
    """Catches attributes, or other numbers, that a pickle sets after a tensor is made."""
    pickled = golden_pickle(b"tq\x0cR", b"tq\x0cR}X\x04\0\0\0pathX\1\0\0\0xsb")
    with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w") as archive:
        for name, content in {"data.pkl": pickled, **NUMBERS["numbers"]}.items():
            archive.writestr(f"archive/{name}", content)
    assert_equal(open_tensors(tmp_path), open_tensors(GOLDEN))


def test_a_folder_without_weights(tmp_path):
    """Catches a missing file that is reported by its number."""
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor pytorch_model\.bin"):
        open_tensors(tmp_path)
