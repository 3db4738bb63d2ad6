"""The public names of the package, as editors, type checkers and `dir` see them."""

import inspect

import pytest

import transformer


@pytest.mark.parametrize("name", transformer.__all__)
def test_every_public_name_is_imported_on_first_use(name):
    """Catches a name in `__all__` that is not imported, or whose module has moved."""
    assert inspect.getdoc(getattr(transformer, name))
    assert name in dir(transformer)


def test_other_names_are_unknown():
    """Catches a package that answers to any name."""
    with pytest.raises(AttributeError, match="no attribute 'Decoder'"):
        _ = transformer.Decoder
