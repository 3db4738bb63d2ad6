"""Files that are appended to while a disk is full for some time."""

import pytest

from tests.helpers.full_disk import no_file_beyond
from transformer.files.appending import GrowingFiles


def test_lines_wait_until_there_is_space(tmp_path, capsys):
    """Catches half a line in the file, to which the next is glued, and lines that are lost."""
    files, path = GrowingFiles(tmp_path), tmp_path / "log"
    files.append("log", "first\n")
    with no_file_beyond(9):
        for line in ("second\n", "third\n"):
            files.append("log", line)
        assert capsys.readouterr().err.count("File too large") == 1  # not at every line
        assert path.read_text() == "first\n"
        with pytest.raises(OSError, match="log"):
            files.flush()
    files.append("log", "fourth\n")
    assert path.read_text() == "first\nsecond\nthird\nfourth\n"
    with no_file_beyond(9):
        files.append("log", "fifth\n")
    assert "File too large" in capsys.readouterr().err  # another time


def test_a_file_that_cannot_be_written_keeps_no_other_from_it(tmp_path, capsys):
    """Catches a log of another user because of which no metrics are written."""
    files = GrowingFiles(tmp_path)
    (tmp_path / "log.txt").mkdir()
    files.add("log.txt", "said\n")
    files.append("metrics", "1\n")
    assert (tmp_path / "metrics").read_text() == "1\n"
    assert "log.txt" in capsys.readouterr().err
    files.flush("metrics", "none")
    with pytest.raises(IsADirectoryError, match="log"):
        files.flush()


def test_what_was_replaced_is_not_written_again(tmp_path):
    """Catches the records of a former start in a file that has been written anew."""
    files = GrowingFiles(tmp_path)
    with no_file_beyond(3):
        files.append("log", "first\n")
    files.forget("log")
    files.append("log", "second\n")
    assert (tmp_path / "log").read_text() == "second\n"
