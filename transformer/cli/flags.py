"""The manners of train.py and eval.py: flags, one-line errors, exit codes."""

import difflib
import os
import sys
import warnings
from pathlib import Path

from absl import app, flags, logging
from ml_collections import config_flags

from transformer.cli import compile_cache
from transformer.cli.process import fail, run_guarded
from transformer.config import Config
from transformer.console import be_quiet, say
from transformer.parallel import hosts
from transformer.signals import RESUMABLE

flags.disclaim_key_flags()  # what is defined here belongs to the script that asks for it


def define_config():
    """--config=FILE with --config.GROUP.FIELD=VALUE on top of it."""
    return config_flags.DEFINE_config_file("config", None, "File with get_config().")


def define_hosts():
    """The flags of `connect_hosts`."""
    flags.DEFINE_string(
        "coordinator", "", "HOST:PORT of process 0; TPU slices, Slurm and Open MPI need none."
    )
    flags.DEFINE_integer("num_processes", 0, "How many processes work together.")
    flags.DEFINE_integer("process_id", -1, "Which of them this is, from 0.")
    flags.DEFINE_integer(
        "wait_seconds", hosts.WAIT_SECONDS, "How long to wait for the other processes to start."
    )


def connect_hosts():
    """Joins the other hosts, if any; returns whether this is the first, which alone speaks."""
    given = flags.FLAGS
    speaks = hosts.connect(
        given.coordinator, given.num_processes, given.process_id,
        wait_seconds=given.wait_seconds, say=say, on_timeout=lambda: os._exit(RESUMABLE),
    )  # fmt: skip
    if not speaks:
        be_quiet()
    return speaks


def run(main, usage, default_config=""):
    """Parses the command line and exits with main(); a ValueError becomes one line and exit 2.

    default_config: the --config of a command line that names none; "" for a script without one.
    """
    if any(word in ("--help", "-h", "-help") for word in sys.argv[1:]):
        sys.exit(
            run_guarded(lambda: print(_help(usage, default_config, main.__module__), flush=True))
        )
    logging.set_verbosity(logging.ERROR)
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    argv = list(sys.argv)
    if default_config and not any(_name(word) == "config" for word in argv):
        argv.insert(1, f"--config={default_config}")
    compile_cache.use(say)
    app.run(lambda _: sys.exit(run_guarded(main)), argv, flags_parser=_parse)


def main_of_module(main, usage, num_arguments):
    """`run` for a python -m of ours, which takes so many words (a range) and no flags."""
    if len(sys.argv) - 1 not in num_arguments or any(w.startswith("-") for w in sys.argv[1:]):
        fail(f"expected {usage.splitlines()[0].split(': ')[1]}")
    run_guarded(main)


def given_flags(names):
    """{name: value} of the flags among the `globals()` of a script that were given to it."""
    ours = (flag for flag in names.values() if isinstance(flag, flags.FlagHolder))
    return {flag.name: flag.value for flag in ours if flag.present}


def _parse(argv):
    try:
        rest = flags.FLAGS(argv)
        if "config" in flags.FLAGS and flags.FLAGS.config is not None:
            _ = flags.FLAGS.config.model  # a file that could not be read fails only when used
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        return fail(_explain(error, argv))
    if len(rest) > 1:
        return fail(f"this command takes only --flags, not '{rest[1]}'; see --help.")
    return rest


def _explain(error, argv):
    """What is wrong with the command line, and the nearest name that would be right."""
    known = [f"config.{setting.name}" for setting in Config.settings()]
    known += [name for name in flags.FLAGS if "-" not in name]
    for word in argv[1:]:
        name = _name(word)
        if word.startswith("--") and name not in known and name.removeprefix("no") not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            return f"there is no --{name}; " + (
                f"did you mean --{near[0]}?" if near else "see --help."
            )
        file = Path(word.removeprefix("--config=").split(":")[0])
        if word.startswith("--config=") and not (file.is_file() and file.suffix == ".py"):
            there = ", ".join(sorted(str(path) for path in Path("configs").glob("*.py")))
            return (
                f"--config must name a Python file with get_config(), not {file}; there is {there}."
            )
    text = str(error).strip()
    if "Traceback" in text:  # of a configuration file: its last line is the error
        return text.rsplit("\n", 1)[-1]
    return text.split("\n")[0]


def _name(word):
    """ "--config.model.d_ff=8" -> "config.model.d_ff"."""
    return word.lstrip("-").split("=")[0]


def _help(usage, default_config, module):
    lines = [usage.strip(), "", "Flags:"]
    for flag in flags.FLAGS.get_key_flags_for_module(module):
        default = f" (default: {flag.default_as_str})" if flag.default not in (None, "") else ""
        lines.append(f"  --{flag.name}: {flag.help}{default}")
    if default_config:
        lines.append(f"  --config: File with get_config() (default: {default_config})")
        lines += ["", "Fields of the configuration, with the paper's values:"]
        for setting in Config.settings():
            flag = f"--config.{setting.name}={setting.default!r}"
            lines.append(f"  {flag:<48} {setting.help_with_choices}")
    return "\n".join(lines)
