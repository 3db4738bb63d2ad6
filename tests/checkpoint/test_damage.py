"""Whatever is damaged in a work directory, nothing wrong comes of it in silence."""

from itertools import islice

import pytest

from tests.helpers.rings import others_long
from tests.torture import BAD
from tests.torture.damage import trials


@pytest.mark.parametrize("num_trials", others_long([4, 40], 4))
def test_no_damage_is_silent(tmp_path, num_trials):
    """Catches any file or folder whose damage changes what is restored, and tracebacks.

    `make torture` tries many more, and trains on with the damaged runs.
    """
    for trial in islice(trials(tmp_path, seed=7, trains=False), num_trials):
        assert trial.outcome not in BAD, trial
