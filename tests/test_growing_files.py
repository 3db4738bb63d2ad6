"""Files that are appended to while a disk is full for some time."""

import pytest

from tests.helpers.full_disk import no_file_beyond
from transformer.growing_files import GrowingFiles


def test_lines_wait_until_there_is_space(tmp_path):
    """Catches half a line in the file, to which the next is glued, and lines that are lost."""
    files, path = GrowingFiles(tmp_path), tmp_path / "log"
    files.append("log", "first\n")
    with no_file_beyond(9):
        with pytest.warns(UserWarning, match=r"log cannot be written: File too large"):
            files.append("log", "second\n")
        assert path.read_text() == "first\n"
        with pytest.raises(OSError, match="log"):
            files.flush()
    files.append("log", "third\n")
    assert path.read_text() == "first\nsecond\nthird\n"


def test_what_was_replaced_is_not_written_again(tmp_path):
    """Catches the records of a former start in a file that has been written anew."""
    files = GrowingFiles(tmp_path)
    with no_file_beyond(3), pytest.warns(UserWarning, match="cannot be written"):
        files.append("log", "first\n")
    files.forget("log")
    files.append("log", "second\n")
    assert (tmp_path / "log").read_text() == "second\n"
