"""The manners of train.py and eval.py: flags, one-line errors, exit codes."""

import dataclasses
import difflib
import shlex
import sys
import warnings

from absl import app, flags, logging
from ml_collections import config_flags

from transformer.config import Config

WRONG_INPUT = 2  # exit code of everything the user can mend


def define_config(default):
    """--config=FILE with --config.GROUP.FIELD=VALUE on top of it."""
    return config_flags.DEFINE_config_file(
        "config", default, "File with get_config(); fields follow as --config.GROUP.FIELD=VALUE."
    )


def run(main, usage, with_config=False):
    """Parses the command line, calls main() and turns every ValueError into one line and exit 2."""
    if any(word in ("--help", "-h", "-help") for word in sys.argv[1:]):
        print(_help(usage, with_config))
        sys.exit(0)
    logging.set_verbosity(logging.ERROR)
    warnings.showwarning = lambda message, *_: say(f"warning: {message}")
    try:
        app.run(lambda _: sys.exit(_guarded(main)), flags_parser=_parse)
    except BrokenPipeError:  # the reader of our output has gone: nothing is wrong
        sys.stderr.close()
        sys.exit(0)


def say(text):
    """Tells the user something; standard output belongs to translations."""
    print(text, file=sys.stderr, flush=True)


def this_command():
    """The command line that started this program."""
    return " ".join(["python", *map(shlex.quote, sys.argv)])


def fail(text):
    say(f"error: {text}")
    sys.exit(WRONG_INPUT)


def _guarded(main):
    try:
        return main()
    except ValueError as error:
        return fail(error)


def _parse(argv):
    try:
        rest = flags.FLAGS(argv)
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        return fail(_explain(error, argv))
    if len(rest) > 1:
        return fail(f"this command takes only --flags, not '{rest[1]}'; see --help.")
    return rest


def _explain(error, argv):
    """What is wrong with the command line, and the nearest name that would be right."""
    known = [f"config.{name}" for name, _ in _fields()]
    known += [name for name in flags.FLAGS if "-" not in name]
    for word in argv[1:]:
        name = word.lstrip("-").split("=")[0]
        group = name.count(".") == 1 and any(k.startswith(name + ".") for k in known)
        if (
            word.startswith("--")
            and (name not in known and name.removeprefix("no") not in known)
            and not group
        ):
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f" Did you mean --{near[0]}?" if near else " See --help."
            return f"there is no flag --{name}.{hint}"
    return str(error).strip().split("\n")[0]


def _fields():
    """(name, default) of every field of the configuration."""
    for group, values in dataclasses.asdict(Config()).items():
        for leaf, value in values.items():
            yield f"{group}.{leaf}", value


def _help(usage, with_config):
    lines = [usage.strip(), "", "Flags:"]
    for flag in flags.FLAGS.get_key_flags_for_module(sys.argv[0]):
        default = f" (default: {flag.default_as_str})" if flag.default not in (None, "") else ""
        lines.append(f"  --{flag.name}: {flag.help}{default}")
    if with_config:
        lines += ["", "Fields of the configuration, with the paper's values:"]
        lines += [f"  --config.{name}={value!r}" for name, value in _fields()]
    return "\n".join(lines)
