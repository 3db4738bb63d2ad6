"""The public names of the package, as editors, type checkers and `dir` see them."""

import ast
import inspect

import pytest

import transformer


@pytest.mark.parametrize("name", transformer.__all__)
def test_every_public_name_is_imported_on_first_use(name):
    """Catches a name in `__all__` whose module has moved."""
    assert inspect.getdoc(getattr(transformer, name))
    assert name in dir(transformer)


def test_type_checkers_see_the_same_names():
    """Catches a public name that is imported lazily and is unknown to an editor."""
    body = ast.parse(inspect.getsource(transformer)).body
    blocks = {ast.unparse(node.test): node for node in body if isinstance(node, ast.If)}
    names = [alias.name for line in blocks["TYPE_CHECKING"].body for alias in line.names]
    assert sorted(names) == sorted(transformer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Decoder'"):
        _ = transformer.Decoder
