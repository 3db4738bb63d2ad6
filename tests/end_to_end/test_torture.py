"""A few of the trials of two loops of `make torture`."""

import sys
from itertools import islice

import pytest

from tests.helpers.failing_io import compile_library
from tests.helpers.rings import others_long
from tests.helpers.scripts import write_config
from tests.torture import BAD, Outcome, failing_io, long_runs


@pytest.mark.parametrize("num_trials", others_long([3, 8], 3))
def test_a_failure_of_a_file_gets_the_right_result_or_a_sentence(tmp_path, num_trials):
    """Catches tracebacks, what a failed save leaves behind, and a next start that differs."""
    if compile_library(tmp_path) is None:
        pytest.skip("the library that lets calls fail needs Linux and a C compiler")
    trials = list(islice(failing_io.trials(tmp_path, 1, ["save", "prepare"]), num_trials))
    assert len(trials) == num_trials
    assert not [trial for trial in trials if trial.outcome in BAD]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_grows_over_steps_with_evaluations_or_over_lines(tmp_path):
    """Catches a file, thread or program per evaluation, save or chunk of lines."""
    trained = long_runs.train(write_config(tmp_path), tmp_path / "run", 240)
    assert trained.outcome is Outcome.SURVIVED, trained
    translated = long_runs.translate(tmp_path, tmp_path / "run", 3_000)
    assert translated.outcome is Outcome.SURVIVED, translated
