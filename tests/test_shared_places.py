"""Folders that everybody may write to, as /tmp: nothing that another user laid there is used."""

import os

import pytest

from transformer.config import DataConfig
from transformer.data.prepared.cache import cache_folder, make_private
from transformer.folders import is_of_stranger
from transformer.storage import write_atomically


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder as /tmp; what is in it belongs to another user than the process."""
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chmod(folder, 0o1777)
    monkeypatch.setattr(os, "getuid", lambda: os.stat(folder).st_uid + 1)
    monkeypatch.setattr("transformer.folders.ROOT", -1)  # who may run these tests
    return folder


def test_only_what_another_user_made_in_a_shared_place_is_strange(shared):
    """Catches a folder of a group's, or one that is still to be made, taken for a stranger's."""
    (shared / "x" / "y").mkdir(parents=True)
    assert is_of_stranger(shared / "x")
    assert not is_of_stranger(shared / "x" / "y") and not is_of_stranger(shared / "z")


def test_prepared_corpora_of_another_user_are_not_read(shared, capsys):
    """Catches training on a text that somebody else prepared under our name."""
    (shared / "prepared_corpora").mkdir()
    folder = cache_folder(DataConfig(), shared / "run")
    assert shared not in folder.parents and os.stat(folder).st_mode & 0o777 == 0o700
    assert "another user put it there" in capsys.readouterr().err
    make_private(shared / "other", "name", "parts")
    for path in ("other", "other/name", "other/name/parts"):
        assert os.stat(shared / path).st_mode & 0o777 == 0o700


def test_a_temporary_file_follows_no_link(tmp_path):
    """Catches another file overwritten, to which somebody laid a link under a known name."""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "scores.json.tmp").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "scores.json", "{}")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "scores.json").read_text() == "{}"
    assert not (tmp_path / "scores.json").is_symlink()
