"""The scripts of benchmarks/ and tools/ start as they say: python benchmarks/NAME.py."""

import ast

import pytest

from tests.helpers.scripts import ROOT
from tests.helpers.used_names import check_names

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


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_name_what_there_is(script):
    """Catches a module of the package that has moved, and a name that it has by its former one."""
    check_names(script.read_text())
