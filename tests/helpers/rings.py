"""Which cases of a test belong to `make test`, and which to `make test-all` alone."""

import pytest


def others_long(cases, *kept):
    """Returns the cases of a parametrized test, all marked as long but `kept`."""
    assert not set(kept) - set(cases), "a case that is kept must be one of the cases"
    return [case if case in kept else pytest.param(case, marks=pytest.mark.long) for case in cases]
