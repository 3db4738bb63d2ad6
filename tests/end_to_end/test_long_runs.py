"""What a process holds does not grow with its steps and lines: `make torture`'s loop, small."""

import sys

import pytest

from tests.helpers.scripts import write_config
from tests.torture import Outcome, long_runs


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_grows_over_steps_with_evaluations_or_over_lines(tmp_path):
    """Catches a file, thread or program per evaluation, save or chunk of lines."""
    trained = long_runs.train(write_config(tmp_path), tmp_path / "run", 240)
    assert trained.outcome is Outcome.SURVIVED, trained
    translated = long_runs.translate(tmp_path, tmp_path / "run", 3_000)
    assert translated.outcome is Outcome.SURVIVED, translated
