"""Folders that everybody may write to, as /tmp."""

import os

from transformer.data.prepared.cache import make_private
from transformer.files.storage import write_atomically


def test_prepared_corpora_are_private(tmp_path):
    """Catches a text that everybody may read because it was prepared."""
    make_private(tmp_path / "other", "name", "parts")
    for path in ("other", "other/name", "other/name/parts"):
        assert os.stat(tmp_path / path).st_mode & 0o777 == 0o700


def test_a_temporary_file_follows_no_link(tmp_path):
    """Catches another file overwritten, to which somebody laid a link under a known name."""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "scores.json.tmp").symlink_to(tmp_path / "precious")
    write_atomically(tmp_path / "scores.json", "{}")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "scores.json").read_text() == "{}"
    assert not (tmp_path / "scores.json").is_symlink()
