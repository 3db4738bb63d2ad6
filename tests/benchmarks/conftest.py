"""Lets tests import the modules of `benchmarks/`, which are scripts beside each other."""

import pytest

from tests.helpers.scripts import ROOT


@pytest.fixture(autouse=True)
def benchmarks_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
