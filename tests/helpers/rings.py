"""Which cases of a parametrized test belong to `make test`, and which to `make test-all` alone."""

import pytest


def others_long(cases, *kept):
    """Returns the cases of a parametrized test, all marked as long but `kept`.

    A case of several arguments is a tuple.
    """
    assert all(case in cases for case in kept), "a case that is kept must be one of the cases"
    return [case if case in kept else _long(case) for case in cases]


def _long(case):
    return pytest.param(*(case if isinstance(case, tuple) else [case]), marks=pytest.mark.long)
