"""The scripts of benchmarks/ and tools/ start as they say: python benchmarks/NAME.py."""

import ast

import pytest

from tests.helpers.scripts import ROOT

SCRIPTS = sorted(path for name in ("benchmarks", "tools") for path in (ROOT / name).glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_nothing_is_imported_that_only_the_root_of_the_repository_has(script):
    """Catches `from configs import …`: the folder of the script is on sys.path, not the root."""
    roots = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            roots.add((node.module or "").partition(".")[0])
    assert not roots & {"configs", "tests", "benchmarks", "tools"}
