"""plain_text.py: a file or folder to one long text; a part of it is a part of its characters."""

import gzip
import lzma

import pytest

from transformer.config import DataConfig
from transformer.data.files.plain_text import load_text_lines


def lines_of(corpus, split="train"):
    return load_text_lines(DataConfig(corpus=str(corpus)), split).lines


@pytest.mark.parametrize(
    "text", ["a", "a\n", "a\nb", "a\n\nb\n", "\na\n", "a\n\n", "\n\n a \n\n\n"]
)
def test_every_line_comes_back(text, tmp_path):
    """Catches an empty line that is lost, at the end above all, and one more than there is."""
    (tmp_path / "train.txt").write_text(text)
    assert "".join(f"{line}\n" for line in lines_of(tmp_path)) == text.removesuffix("\n") + "\n"


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_a_file_or_a_folder(ending, tmp_path):
    """Catches a compressed file that is read as it is, and a folder whose splits are mixed up."""
    compress = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending]
    path = tmp_path / f"train.txt{ending}"
    path.write_bytes(compress("ä\r\nb\u2028c\n".encode()))
    (tmp_path / "test.txt").write_text("other\n")
    assert lines_of(path, "all") == lines_of(tmp_path) == ["ä", "b\u2028c"]
    assert lines_of(tmp_path, "test") == ["other"]


def test_one_file_has_no_split_of_another_name(tmp_path):
    """Catches training, validation and test that read the same text without a word."""
    path = tmp_path / "input.txt"
    path.write_text("a\n")
    with pytest.raises(
        ValueError, match=r"is one file: its split is 'all', or a part .* not 'val'"
    ):
        lines_of(path, "val")


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_part_is_counted_in_characters(end, tmp_path):
    """Catches nanoGPT's 90/10 counted in lines or bytes, or without the last line feed."""
    text = "".join("ä" * (i % 13) + "\n" for i in range(300)) + f"x{end}"
    path = tmp_path / "input.txt"
    path.write_text(text, encoding="utf-8")
    whole = text.removesuffix("\n") + "\n"
    for percent in (10, 50, 90, 99):
        cut = int(len(whole) * percent / 100)
        first, last = lines_of(path, f"all[:{percent}%]"), lines_of(path, f"all[{percent}%:]")
        assert "\n".join(first) == whole[:cut].removesuffix("\n")
        assert "\n".join(last) == whole[cut:].removesuffix("\n")


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n"])
def test_an_empty_text_is_refused(text, tmp_path):
    """Catches a run over no text, and an error that speaks of array shapes."""
    (tmp_path / "train.txt").write_text(text)
    with pytest.raises(ValueError, match=r"^The split 'train' of \S*train\.txt holds no text\.$"):
        lines_of(tmp_path)


def test_a_part_without_text_is_refused(tmp_path):
    """Catches the same of a part: the rest of the file has text."""
    (tmp_path / "train.txt").write_text("words" + "\n" * 95)
    assert lines_of(tmp_path, "train[:10%]")[0] == "words"
    with pytest.raises(ValueError, match=r"^The split 'train\[90%:\]' of .* holds no text\.$"):
        lines_of(tmp_path, "train[90%:]")


def test_a_missing_file_or_folder_says_what_the_folder_holds(tmp_path):
    """Catches "No such file or directory" without a way out."""
    (tmp_path / "dev.txt").write_text("a\n")
    with pytest.raises(ValueError, match=r"holds train\.txt .*: it holds dev\.txt\.$"):
        lines_of(tmp_path)
    with pytest.raises(ValueError, match=r"holds test\.txt .*no such folder .*--corpus\.$"):
        lines_of(tmp_path / "none", "test")


def test_bad_bytes_are_counted(tmp_path):
    """Catches a Latin-1 file that is trained on without a word."""
    (tmp_path / "train.txt").write_bytes(b"ok\n\xe4\n")
    lines, repairs = load_text_lines(DataConfig(corpus=str(tmp_path)), "train")
    assert lines == ["ok", "\ufffd"]
    assert list(repairs.values()) == [1] and "not UTF-8" in next(iter(repairs))
