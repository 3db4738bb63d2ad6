"""Loops that do harm to runs until one is lost or silently wrong; `make torture` runs them long.

Each module of this package is a loop: `HARM` says what it does, and `trials(folder,
seed)` yields a `Trial` after each harm, without end or until all has been tried. The tests beside
the code take the first few of them, `python -m tests.torture` as many as fit its time.
"""

from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """What a harm came to. Those of `BAD` are failures of the program."""

    SURVIVED = "survived"  # the result is that of an undisturbed run
    REFUSED = "refused"  # a sentence names the cause, and what was there before is still there
    LOST = "lost"  # what was there before cannot be used any more, or a traceback, or a hang
    SILENT = "silent"  # another result, without a word


BAD = (Outcome.LOST, Outcome.SILENT)


class Trial(NamedTuple):
    """One harm and what it came to. harm: what was done, enough to do it again by hand."""

    harm: str
    outcome: Outcome
    answer: str = ""  # what the program said
