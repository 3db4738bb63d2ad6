"""Measures how long a command says nothing: python benchmarks/measure_silence.py [--pipe] COMMAND …

Runs the command on a pseudo-terminal of 80 columns, or with --pipe on pipes as in a log, and
prints the seconds to its first output and its longest silences, each with what was said before it.
"""

import argparse
import os
import pty
import select
import subprocess
import sys
import time


def main() -> int:
    """Measures the command of the command line; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pipe", action="store_true", help="pipes in place of a terminal")
    parser.add_argument("--show", action="store_true", help="also print what the command says")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    reading, writing = os.pipe() if options.pipe else pty.openpty()
    start = time.monotonic()
    environment = os.environ | {"COLUMNS": "80"}
    process = subprocess.Popen(
        options.command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, env=environment
    )
    os.close(writing)
    silences, said = [], b"(start)"
    last = start
    while data := read(reading):
        now = time.monotonic()
        silences.append((now - last, last - start, said))
        last, said = now, data
        if options.show:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
    code = process.wait()
    silences.append((time.monotonic() - last, last - start, said))
    print(f"\nfirst output after {silences[0][0]:.1f} s; the whole took {last - start:.0f} s")
    for seconds, begun, before in sorted(silences, reverse=True)[:5]:
        text = before.decode(errors="replace").replace("\r", "").strip().split("\n")[-1]
        print(f"silent for {seconds:5.1f} s from {begun:6.1f} s on, after {text[-90:]!r}")
    return code


def read(descriptor: int) -> bytes:
    """Returns what can be read, b"" at the end."""
    select.select([descriptor], [], [])
    try:
        return os.read(descriptor, 65536)
    except OSError:  # a terminal whose last process has ended
        return b""


if __name__ == "__main__":
    sys.exit(main())
