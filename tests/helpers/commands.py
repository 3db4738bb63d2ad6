"""The commands run in this process, which saves the seconds of importing JAX anew."""

import io
import signal
import sys
import tempfile
import warnings
from contextlib import ExitStack, contextmanager, nullcontext
from unittest.mock import patch

import jax

from tests.helpers.terminal import TerminalBytes
from transformer import console
from transformer.cli.commands import evaluate, export, import_model, prepare, train
from transformer.evaluation.plots import NoMatplotlibError

COMMANDS = {
    "train.py": train.main,
    "eval.py": evaluate.main,
    "transformer-import": import_model.main,
    "transformer-export": export.main,
    "transformer-prepare": prepare.main,
}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def call(script, *arguments, stdin=b"", pictures=False, terminal=False):
    """Runs a command to its end: (exit code, standard output, standard error).

    Like `scripts.run`, and on one device too. Output is bytes. pictures: whether matplotlib is
    there, which takes its time for curves and reports that most tests do not read. terminal:
    whether both outputs are terminals.
    """
    no_drawing = patch("transformer.evaluation.plots.render", side_effect=NoMatplotlibError("None"))
    with (
        nullcontext() if pictures else no_drawing,
        patch("transformer.parallel.hosts.connect", return_value=True),  # JAX runs already
        one_device(),
        streams(stdin, TerminalBytes if terminal else io.BytesIO) as (out, err),
        ExitStack() as handlers,
        warnings.catch_warnings(),
    ):
        for number in SIGNALS:
            handlers.callback(signal.signal, number, signal.getsignal(number))
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: console.say(f"warning: {message}")
        try:
            code = COMMANDS[script]([script, *map(str, arguments)])
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue().decode()


@contextmanager
def one_device():
    """Hides the devices of this process but the first: programs for several compile for longer."""
    first = jax.local_devices()[:1]
    values = dict(devices=first, local_devices=first, device_count=1, local_device_count=1)
    with patch.multiple(jax, **{n: lambda *_, v=v, **__: v for n, v in values.items()}):
        yield


@contextmanager
def streams(stdin, kind=io.BytesIO):
    """Replaces the standard streams: yields what collects standard output and standard error."""
    kept = sys.stdin, sys.stdout, sys.stderr
    out, err = kind(), kind()
    with tempfile.TemporaryFile() as file:
        file.write(stdin)
        file.seek(0)
        sys.stdin = io.TextIOWrapper(file)
        sys.stdout = io.TextIOWrapper(out, write_through=True)
        sys.stderr = io.TextIOWrapper(err, write_through=True)
        try:
            yield out, err
            sys.stdout.flush()
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.detach()  # else closing it would close `out` and `err`
            sys.stdin, sys.stdout, sys.stderr = kept
            console.live_line.is_silent = False
