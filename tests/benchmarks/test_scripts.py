"""The scripts of benchmarks/ and tools/ start as they say: python benchmarks/NAME.py."""

import ast

import pytest

from tests.helpers.scripts import ROOT
from tests.helpers.used_names import check_names

SCRIPTS = sorted(path for name in ("benchmarks", "tools") for path in (ROOT / name).glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_import_and_name_what_there_is(script):
    """Catches `from configs import …`: the folder of the script is on sys.path, not the root; also
    a module of the package that has moved, and a name that it has by its former one."""
    imported = set()
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    roots = {name.partition(".")[0] for name in imported}
    assert not roots & {"configs", "tests", "benchmarks", "tools"}
    check_names(script.read_text())
