"""A file operation of a command fails: a few of the trials of the loop that lets all fail."""

from itertools import islice

import pytest

from tests.helpers.failing_io import compile_library
from tests.helpers.rings import others_long
from tests.torture import BAD, failing_io


@pytest.mark.parametrize("num_trials", others_long([3, 8], 3))
def test_a_failure_of_a_file_gets_the_right_result_or_a_sentence(tmp_path, num_trials):
    """Catches tracebacks, what a failed save leaves behind, and a next start that differs."""
    if compile_library(tmp_path) is None:
        pytest.skip("the library that lets calls fail needs Linux and a C compiler")
    trials = list(islice(failing_io.trials(tmp_path, 1, ["save", "prepare"]), num_trials))
    assert len(trials) == num_trials
    assert not [trial for trial in trials if trial.outcome in BAD]
