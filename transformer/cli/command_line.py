"""Reads a command line into flags and a configuration, and prints --help."""

import difflib
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from absl import flags as absl_flags
from ml_collections import config_flags

import transformer
from transformer.cli.flags import Flag, flags_of, help_lines
from transformer.config import Config
from transformer.console import say

F = TypeVar("F")
DEFAULT_CONFIG = "configs/embedded_en_de.py"
VALUES = {"int": "a whole number", "float": "a number", "bool": "true or false"}
MISTAKES = (absl_flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError)


def parse_flags(kind: type[F], argv: Sequence[str]) -> F:
    """Returns the flags of a command line, an instance of the dataclass `kind`.

    argv: the words of the command line, the first of them the program. Raises ValueError.
    """
    values = _define_flags(kind)
    _parse(values, argv)
    return kind(**{name: values[name].value for name in flags_of(kind)})


def parse_flags_and_config(kind: type[F], argv: Sequence[str]) -> tuple[F, Config]:
    """Returns the flags and the valid configuration of a command line.

    --config=FILE names a file with `get_config()`, and --config.GROUP.NAME=VALUE changes one of
    its settings. Raises ValueError.
    """
    values, argv = _define_flags(kind), _find_config(list(argv))
    _make_configs_importable()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=argv)
    _parse(values, argv)
    return kind(**{name: values[name].value for name in flags_of(kind)}), values.config.validate()


def wants_help(argv: Sequence[str]) -> bool:
    """Whether the command line asks for --help."""
    return any(word in ("--help", "-h", "-help") for word in argv[1:])


def help_text(usage: str | None, kind: type, with_config: bool = False) -> str:
    """Returns what --help prints. usage: the docstring of the command."""
    lines = [(usage or "").strip(), "", "Flags:", *help_lines(kind)]
    if with_config:
        lines.append("  --config=FILE: File with get_config(), or the name of a shipped one.")
        lines.append(f"      default: {DEFAULT_CONFIG}")
        lines += [
            "",
            "Settings of a configuration, with their defaults where its file sets no other:",
        ]
        for setting in Config.settings():
            override = f"--config.{setting.name}={setting.default!r}"
            lines.append(f"  {override:<48} {setting.help_with_choices}")
    return "\n".join(lines)


def _define_flags(kind: type) -> absl_flags.FlagValues:
    """Returns the flags of a command, not parsed yet, apart from those of every other command."""
    values = absl_flags.FlagValues()
    for declared in flags_of(kind).values():
        _define_flag(declared, values)
    return values


def _define_flag(declared: Flag, values: absl_flags.FlagValues) -> None:
    name, default, text = declared.name, declared.default, declared.rules.help
    if declared.choices:
        absl_flags.DEFINE_enum(name, default, declared.choices, text, flag_values=values)
        return
    define = {
        str: absl_flags.DEFINE_string,
        int: absl_flags.DEFINE_integer,
        float: absl_flags.DEFINE_float,
        bool: absl_flags.DEFINE_bool,
    }[declared.type]
    define(name, default, text, flag_values=values)


def _parse(values: absl_flags.FlagValues, argv: Sequence[str]) -> None:
    """Parses a command line into `values`; raises ValueError with one sentence for a mistake."""
    try:
        rest = values(argv)
        if "config" in values:
            _ = values.config.model  # a file that could not be read fails only when it is used
    except MISTAKES as error:
        raise ValueError(_explain_mistake(error, values, argv)) from None
    if len(rest) > 1:
        raise ValueError(f"this command takes only --flags, not '{rest[1]}'; see --help.")


def _explain_mistake(error: Exception, values: absl_flags.FlagValues, argv: Sequence[str]) -> str:
    """Returns what is wrong with a command line, and the nearest name that would be right."""
    known = [name for name in values if "-" not in name]
    if "config" in known:
        known += [f"config.{setting.name}" for setting in Config.settings()]
    for word in argv[1:]:
        name = _name_of(word)
        if word.startswith("--") and name not in known and name.removeprefix("no") not in known:
            nearest = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean --{nearest[0]}?" if nearest else "see --help."
            return f"there is no --{name}; {hint}"
    text = str(error).strip()
    if "Traceback" in text:  # of a configuration file: its last line is the error
        return text.rsplit("\n", 1)[-1]
    return _explain_value(text, values) or text.split("\n")[0]


def _explain_value(text: str, values: absl_flags.FlagValues) -> str:
    """Returns what a flag takes if absl's error `text` is about its value, else ""."""
    wrong = re.match(r"flag --([^=]+)=(.*?): ", text)
    if not wrong or wrong[1] not in values:
        return ""
    flag = values[wrong[1]]
    choices = getattr(flag.parser, "enum_values", ())
    expected = f"one of {', '.join(choices)}" if choices else VALUES.get(flag.flag_type())
    return f"--{wrong[1]} must be {expected}, not '{wrong[2]}'." if expected else ""


def _name_of(word: str) -> str:
    """Returns the name of a flag: "--config.model.d_ff=8" -> "config.model.d_ff"."""
    return word.lstrip("-").split("=")[0]


# ---- the file of --config


def _find_config(argv: list[str]) -> list[str]:
    """Returns a command line whose --config names an existing file; without one, the default."""
    for index, word in enumerate(argv[1:], 1):
        if re.fullmatch("--?config", word) and index + 1 < len(argv):
            argv[index + 1] = _config_path(argv[index + 1])
            return argv
        if re.match("--?config=", word):
            flag, _, value = word.partition("=")
            argv[index] = f"{flag}={_config_path(value)}"
            return argv
    return [*argv[:1], f"--config={_config_path(DEFAULT_CONFIG)}", *argv[1:]]


def _config_path(value: str) -> str:
    """Returns the path to a configuration, or to the one of that name that this package ships.

    value: PATH or PATH:ARGUMENT, the argument being that of `get_config`.
    """
    name, colon, argument = value.partition(":")
    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        return value
    shipped = {f"configs/{file.name}": file for file in shipped_configs()}
    for wanted in (name, f"configs/{name}", f"configs/{name}.py"):
        if wanted in shipped:
            if value != DEFAULT_CONFIG:
                say(f"--config={name} is not a file here; taking {shipped[wanted]}")
            return f"{shipped[wanted]}{colon}{argument}"
    raise ValueError(
        f"--config must name a Python file with get_config(), not {name}; shipped "
        f"are {', '.join(shipped)}."
    )


def shipped_configs() -> list[Path]:
    """Returns the configurations of an installed package, or of the checkout that it lies in."""
    package = Path(transformer.__file__).parent
    folders = package / "configs", package.parent / "configs"
    return next((sorted(f.glob("*.py")) for f in folders if f.is_dir()), [])


def _make_configs_importable() -> None:
    """Lets `from configs import …` find the shipped configurations outside of a checkout too."""
    if "configs" not in sys.modules and not find_spec("configs"):
        package = ModuleType("configs")
        package.__path__ = sorted({str(file.parent) for file in shipped_configs()})
        sys.modules["configs"] = package
