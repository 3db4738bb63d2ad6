"""Runs every loop of harm for a share of the time, and prints trials, survived, lost and silent.

python -m tests.torture --minutes=30
python -m tests.torture --minutes=10 --loops=damage --seed=7
"""

import argparse
import importlib
import os
import pkgutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tabulate import tabulate

from tests.helpers.xla_flags import CHEAP
from tests.torture import BAD, Outcome

HERE = str(Path(__file__).parent)
LOOPS = [module.name for module in pkgutil.iter_modules([HERE]) if module.name[0] != "_"]


def run_loop(loop, seconds, seed):
    """Runs the trials of a loop until the time is over or Ctrl-C; shows each bad one.

    Every minute it shows how far it is. The last trial is cut short, and not counted.
    """
    tally = Counter()
    start = shown = time.monotonic()
    signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        for trial in loop.trials(Path(folder), seed):
            tally[trial.outcome] += 1
            now = time.monotonic()
            if trial.outcome in BAD:
                print(f"{trial.outcome}: {trial.harm}: {trial.answer}", flush=True)
            if now > shown + 60:
                shown, left = now, (start + seconds - now) / 60
                print(f"{counts(tally)} ({loop.HARM}); {left:.0f} min left", flush=True)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return tally


def counts(tally):
    """Returns what the trials of a loop came to, as "120 trials: 90 survived, 30 refused, …"."""
    return f"{tally.total():,} trials: " + ", ".join(f"{tally[one]:,} {one}" for one in Outcome)


def main():
    flags = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    flags.add_argument("--minutes", type=float, default=30)
    flags.add_argument("--loops", default=",".join(LOOPS))
    flags.add_argument("--seed", type=int, default=1)
    arguments = flags.parse_args()
    names = [name for name in arguments.loops.split(",") if name]
    seconds = 60 * arguments.minutes / max(1, len(names))
    tallies = {}
    with tempfile.TemporaryDirectory() as programs:
        os.environ.update(CHEAP, JAX_COMPILATION_CACHE_DIR=programs)
        for name in names:
            loop = importlib.import_module(f"tests.torture.{name}")  # now, as it imports jax
            tallies[loop.HARM] = run_loop(loop, seconds, arguments.seed)
    rows = [[harm, t.total(), *(t[outcome] for outcome in Outcome)] for harm, t in tallies.items()]
    print(tabulate(rows, ["harm", "trials", *Outcome], "pipe", intfmt=","))
    for harm in (harm for harm, tally in tallies.items() if not tally):
        print(f"no trial came to its end: {harm}; it may need more minutes, Linux or a C compiler")
    sys.exit(any(tally[outcome] for tally in tallies.values() for outcome in BAD))


if __name__ == "__main__":
    main()
