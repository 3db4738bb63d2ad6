"""How a command begins, joins other hosts and ends: with an exit code, a mistake with one line."""

import contextlib
import faulthandler
import io
import logging
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import transformer
from transformer.cli.flags import HostFlags
from transformer.config import Config
from transformer.console import escaped, live_line, phase, say, showing_phases
from transformer.data.workers import num_cores
from transformer.exit_codes import DONE, INTERRUPTED, RESUMABLE, WRONG_INPUT, ResumableError
from transformer.files.reading import reason_of
from transformer.parallel.stopping import Interruption, end_on_signals, ignore_signals
from transformer.registry import task_kind

CLOUD_LIBRARIES = ("gcsfs", "google", "aiohttp")  # whose errors are those of gs://
LOST_HOST = re.compile("UNAVAILABLE|DEADLINE_EXCEEDED|ABORTED|[Gg]loo|[Cc]onnection|[Hh]eartbeat")


def run_process(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Runs a command as this process: main(sys.argv) returns its exit code.

    Warnings become lines on standard error, and of what libraries log only errors are shown.
    """
    end_on_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As standard error has it; a file or a pipe gets UTF-8, whatever the locale.
        encoding = sys.stdout.encoding if sys.stdout.isatty() else "utf-8"
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")
    hear_errors_once()
    warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
    sys.excepthook = show_defect
    with contextlib.suppress(RuntimeError, OSError, ValueError):  # there is no standard error
        faulthandler.enable()
    live_line.has_stamps = True
    try:
        with showing_phases():
            code = main(sys.argv)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt | Interruption):
            # At once, as threads that still save would complain.
            _end_now(end.code if isinstance(end.code, int) else 1)
        raise
    ignore_signals()
    sys.exit(code)


def show_defect(*error: Any) -> None:
    """Prints the traceback of an error that nothing explains."""
    if sys.stderr:
        sys.stderr.write(escaped("".join(traceback.format_exception(error[1]))))


def hear_errors_once() -> None:
    """Shows only errors that libraries log, and hides those that they also raise.

    When a save fails, Orbax both logs and raises its error, and closes the event loop to which
    tensorstore then reports; that report is hidden too.
    """

    def is_news(record: logging.LogRecord) -> bool:
        record.msg, record.args = escaped(record.getMessage()), ()
        is_raised = record.name in ("asyncio", "gcsfs") or "orbax" in record.pathname
        error = record.exc_info and record.exc_info[1]
        return not error or not (is_raised or isinstance(error, KeyboardInterrupt))

    def show(unraisable: "sys.UnraisableHookArgs") -> None:
        code = getattr(unraisable.object, "cr_code", None)  # of a coroutine that was dropped
        is_orbax = code is not None and "orbax" in code.co_filename
        if not is_orbax and str(unraisable.exc_value) != "Event loop is closed":
            sys.__unraisablehook__(unraisable)

    handler = logging.StreamHandler()
    handler.setLevel(logging.ERROR)
    handler.addFilter(is_news)
    logging.getLogger().addHandler(handler)
    sys.unraisablehook = show


def connect_hosts(flags: HostFlags, evaluated: Config | None = None) -> bool:
    """Turns the cache of compiled programs on and joins the other hosts, if there are any.

    evaluated: the run whose model is used; each core of a CPU computes a small one by itself.
    Returns whether this is the first host, which alone speaks. The process ends with the exit code
    RESUMABLE if the others do not start in time. Raises ValueError if they run different programs.
    """
    import jax  # late: wrong flags need not wait for it

    from transformer.model.costs import fits_a_core
    from transformer.parallel import devices, hosts

    if evaluated and task_kind(evaluated.task) == "translation" and fits_a_core(evaluated.model):
        devices.use_cores_as_devices(num_cores())
    devices.keep_compiled_programs()
    who = "all other hosts"
    if flags.coordinator:
        who = f"all of {flags.num_processes} hosts at {flags.coordinator}"

    def give_up() -> None:  # in a thread, as JAX waits in C++ and would abort the process
        say(
            f"error: not {who} came within {hosts.WAIT_SECONDS} s; start the same command on every "
            f"host, and see that they reach each other.",
            on_every_host=True,
        )
        os._exit(RESUMABLE)

    timer = threading.Timer(hosts.WAIT_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    try:
        with phase(f"waiting for {who}") if flags.coordinator else contextlib.nullcontext():
            is_first = hosts.connect(flags.coordinator, flags.num_processes, flags.process_id)
    finally:
        timer.cancel()
    if not is_first:
        live_line.is_silent = True
    versions = f"{transformer.__version__} {jax.__version__}"
    hosts.check_same("their versions of this package or of JAX", versions.encode)
    if evaluated:
        devices.check_accelerator()
    return is_first


def run_guarded(work: Callable[[], int]) -> int:
    """Returns the exit code of `work`, or ends the process with a line for what the user can mend.

    Every exception that `explain_error` does not know is a defect and keeps its traceback.
    """
    try:
        return work()
    except KeyboardInterrupt:
        say("interrupted")
        exit_process(INTERRUPTED)
    except Interruption as interruption:
        say(str(interruption), on_every_host=True)
        exit_process(interruption.exit_code)
    except BrokenPipeError:  # the reader of our output has gone: nothing is wrong
        sys.stdout = None  # nor is there anything left to flush
        return DONE
    except Exception as error:
        text, code = explain_error(error)
        live_line.has_stamps = False  # a sentence for a person, as the last line
        say("\n".join(f"error: {line}" for line in text.split("\n")), on_every_host=True)
        try:
            print(end="", flush=True)
        except (OSError, ValueError):  # a full disk: it cannot be written at the end either
            sys.stdout = None
        exit_process(code)


def exit_process(code: int) -> NoReturn:
    """Ends this process; at once if other hosts wait for it, so that they learn of it now."""
    jax = sys.modules.get("jax")  # without jax there are no other hosts
    if jax and jax.distributed.is_initialized() and jax.process_count() > 1:
        _end_now(code)
    sys.exit(code)


def _end_now(code: int) -> None:
    """Ends this process without waiting for its threads."""
    for stream in (sys.stdout, sys.stderr):
        if stream:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


def explain_error(error: Exception) -> tuple[str, int]:
    """Returns (sentence, exit code) for an error that the user can act on; raises any other again.

    That is a ValueError, an error of the operating system or of Cloud Storage, too little memory,
    and a host that is lost.
    """
    jax = sys.modules.get("jax")
    if isinstance(error, ValueError):
        return str(error), WRONG_INPUT
    if isinstance(error, ResumableError):
        return str(error), RESUMABLE
    if isinstance(error, MemoryError):
        detail = str(error) or "no more could be had"
        return f"The memory of this machine is not enough ({detail}).", WRONG_INPUT
    *_, place = traceback.extract_tb(error.__traceback__) or [traceback.FrameSummary("", 0, "")]
    if type(error).__module__.partition(".")[0] in CLOUD_LIBRARIES or "gcsfs" in place.filename:
        return f"Cloud Storage: {reason_of(error)}", WRONG_INPUT
    if isinstance(error, OSError) and error.errno and error.strerror:
        file = "A file, or standard output," if error.filename is None else error.filename
        return f"{file} cannot be read or written: {error.strerror}.", WRONG_INPUT
    reason = str(error).split("\n")[0]
    if not jax or not isinstance(error, jax.errors.JaxRuntimeError):
        raise error
    if "RESOURCE_EXHAUSTED" in reason:
        text = (
            f"The memory of a device is not enough ({reason}). To train, raise "
            f"training.accumulate_steps, set remat=True or share the parameters with mesh.fsdp; to "
            f"translate, lower decoding.batch_size or decoding.beam_size."
        )
        return text, WRONG_INPUT
    if jax.process_count() > 1 and LOST_HOST.search(reason):
        text = f"Another host has stopped or cannot be reached ({reason}). Start the same command "
        return f"{text}on every host again: a run continues from its last checkpoint.", RESUMABLE
    raise error
