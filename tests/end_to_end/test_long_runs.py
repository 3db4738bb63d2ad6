"""What a process holds does not grow with its steps and lines: `make torture`'s loop, small."""

import sys

import pytest

from tests.helpers.scripts import write_config
from tests.torture import Outcome, long_runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.long
def test_nothing_grows_over_steps_with_evaluations_or_over_lines(tmp_path):
    """Catches a file, thread or program per evaluation, save or chunk of lines."""
    run = tmp_path / "run"
    trained = long_runs.train(write_config(tmp_path), run, 240)
    assert long_runs.judge("240 steps", *trained).outcome is Outcome.SURVIVED, trained
    translated = long_runs.translate(tmp_path, run, 3_000)
    assert long_runs.judge("3,000 lines", *translated).outcome is Outcome.SURVIVED, translated
