"""Whatever is damaged in a work directory, nothing wrong comes of it in silence."""

from itertools import islice

from tests.torture import BAD
from tests.torture.damage import trials


def test_no_damage_is_silent(tmp_path):
    """Catches any file or folder whose damage changes what is restored, and tracebacks.

    `make torture` tries many more, and trains on with the damaged runs.
    """
    for trial in islice(trials(tmp_path, seed=7, trains=False), 40):
        assert trial.outcome not in BAD, trial
