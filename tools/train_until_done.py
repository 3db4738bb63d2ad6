#!/usr/bin/env python3
"""Starts a training command again whenever it was preempted, and only then.

    python tools/train_until_done.py python train.py --workdir=gs://BUCKET/base …

Exit code 75 says that the run was stopped and can be resumed, and 134 (SIGABRT) is how JAX ends a
process when another host is lost. Every other code ends this program, with the same code. So do
--max_quick=5 restarts in a row that last less than --quick_seconds=600: something else is wrong.
Before a restart it waits --pause_seconds=30, twice as long after each quick one.

SIGTERM, SIGINT and SIGHUP are passed on, and end this program with the code of the command: the
scheduler that sent them decides what happens next. It needs nothing but Python's own library.
"""

import argparse
import signal
import subprocess
import sys
import time

RESTART = (75, 134)
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Restarter:
    """Runs a command until it ends with another code than those of `RESTART`."""

    def __init__(self, command, pause_seconds, quick_seconds, max_quick):
        self.command, self.pause_seconds = command, pause_seconds
        self.quick_seconds, self.max_quick = quick_seconds, max_quick
        self.process = None
        self.signal = None  # the last one that came

    def pass_on(self, number, frame):
        """Handles a signal: the command gets it, once, and is not started again."""
        self.signal = number
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def run(self):
        """Returns the exit code of the last start."""
        num_quick = num_starts = 0
        while True:
            code, seconds = self.start()
            num_starts += 1
            num_quick = num_quick + 1 if seconds < self.quick_seconds else 0
            if code not in RESTART or self.signal:
                return code
            if num_quick >= self.max_quick:
                say(f"giving up: the last {num_quick} starts ended within {self.quick_seconds:g} s")
                return code
            pause = self.pause_seconds * 2 ** max(0, num_quick - 1)
            say(f"exit code {code} after {seconds:,.0f} s; restart {num_starts} in {pause:g} s")
            self.wait(pause)
            if self.signal:
                return code

    def wait(self, seconds):
        """Waits so long, or until a signal comes."""
        end = time.monotonic() + seconds
        while not self.signal and time.monotonic() < end:
            time.sleep(min(0.2, seconds))

    def start(self):
        """Runs the command once; returns (exit code as shells have it, seconds)."""
        start = time.monotonic()
        # A session of its own: Ctrl-C would reach it twice, from the terminal and from here.
        self.process = subprocess.Popen(self.command, start_new_session=True)
        if self.signal:  # it came just now, before there was a process to pass it on to
            self.process.send_signal(self.signal)
        code = self.process.wait()
        return (code if code >= 0 else 128 - code), time.monotonic() - start


def say(text):
    """Prints a line on standard error."""
    print(f"train_until_done: {text}", file=sys.stderr, flush=True)


def main(argv):
    """Returns the exit code of the command line `argv`, without the program."""
    usage, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=usage, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pause_seconds", type=float, default=30)
    parser.add_argument("--quick_seconds", type=float, default=600)
    parser.add_argument("--max_quick", type=int, default=5)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args(argv)
    if not arguments.command:
        parser.error("name the command to run, as in: python train.py --workdir=runs/base")
    restarter = Restarter(**vars(arguments))
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves SIGHUP
            signal.signal(number, restarter.pass_on)
    try:
        return restarter.run()
    except OSError as error:
        say(f"{arguments.command[0]} cannot be started: {error.strerror}")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
