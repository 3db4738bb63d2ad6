"""Reads a command line into flags and a configuration."""

import difflib
import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from absl import flags as absl_flags
from ml_collections import config_flags

from transformer.cli.config_files import choose_config, register_files
from transformer.cli.flags import Flag, flags_of
from transformer.config import Config
from transformer.config.setting import SYNONYMS

F = TypeVar("F")
T = TypeVar("T")
VALUES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
MISTAKES = (absl_flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError)
INFORMATION = dict.fromkeys(("help", "version"), VALUES[bool])  # `wants` looks for these


def parse_flags(kind: type[F], argv: Sequence[str]) -> F:
    """Returns the flags of a command line, an instance of the dataclass `kind`.

    argv: the words of the command line, the first of them the program. Raises ValueError.
    """
    flags, words = parse_flags_and_words(kind, argv)
    _refuse_words(words)
    return flags


def parse_flags_and_words(kind: type[F], argv: Sequence[str]) -> tuple[F, list[str]]:
    """Returns the flags of a command line, and its words that are no flags; raises ValueError."""
    expected, values = _expected_values(kind), _define_flags(kind)
    _refuse_unknown_names(argv, expected)
    run_registering_files(argv)
    words = _parse(values, argv, expected)
    return _flags_from(kind, values), words


def parse_flags_and_config(kind: type[F], argv: Sequence[str]) -> tuple[F, Config]:
    """Returns the flags and the valid configuration of a command line.

    --config and --workdir choose the configuration (`config_files.choose_config`), and
    --config.GROUP.NAME=VALUE changes one of its settings. Raises ValueError.
    """
    settings = {f"config.{known.name}": VALUES[known.type] for known in Config.settings()}
    expected = _expected_values(kind) | settings
    _refuse_unknown_names(argv, expected | {"config": VALUES[str]})
    config, values = chosen_config(kind, argv), _define_flags(kind)
    _, words = _take_values("config", argv)

    def define() -> None:
        config_flags.DEFINE_config_dataclass("config", config, flag_values=values, sys_argv=words)

    _explained(define, expected)
    _refuse_words(_parse(values, words, expected))
    return _flags_from(kind, values), values.config.validate()


def chosen_config(kind: type, argv: Sequence[str]) -> Config:
    """Returns the configuration that --config and --workdir choose, before any other flag."""
    files, _ = _take_values("config", argv)
    folders, _ = _take_values("workdir", argv)
    run_registering_files(argv)
    if len(files) > 1:
        raise ValueError(f"--config was given {len(files)} times: {', '.join(files)}; name one.")
    workdir = folders[-1] if folders else flags_of(kind)["workdir"].default
    return choose_config(files[0] if files else None, workdir)


def run_registering_files(argv: Sequence[str]) -> list[str]:
    """Runs the files of --register and returns the command line without that flag."""
    files, rest = _take_values("register", argv)
    for paths in files:
        register_files(paths)
    return rest


def wants(name: str, argv: Sequence[str]) -> bool:
    """Whether the command line has the flag --help or --version, as `name` says."""
    words = {f"--{name}", f"-{name}"} | ({"-h"} if name == "help" else set())
    return bool(words & set(argv[1:]))


def _expected_values(kind: type) -> dict[str, str]:
    """Returns {name: what its value must be} of the flags of a command, as "a whole number"."""
    return INFORMATION | {
        name: f"one of {', '.join(declared.choices)}" if declared.choices else VALUES[declared.type]
        for name, declared in flags_of(kind).items()
    }


def _define_flags(kind: type) -> absl_flags.FlagValues:
    """Returns the flags of a command, not parsed yet, apart from those of every other command."""
    values = absl_flags.FlagValues()
    values.set_gnu_getopt()  # flags may also follow words
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


def _parse(
    values: absl_flags.FlagValues, argv: Sequence[str], expected: dict[str, str]
) -> list[str]:
    """Parses a command line into `values` and returns its words that are no flags.

    Raises ValueError with one sentence for a mistake.
    """
    return _explained(lambda: values(argv), expected)[1:]


def _refuse_words(words: Sequence[str]) -> None:
    if words:
        raise ValueError(f"this command takes only --flags, not '{words[0]}'; see --help.")


def _flags_from(kind: type[F], values: absl_flags.FlagValues) -> F:
    """Returns the parsed flags as an instance of their dataclass."""
    for name, declared in flags_of(kind).items():
        if values[name].present and values[name].value == "" and declared.default is not None:
            raise ValueError(f"--{name} is empty: give it a value, or leave it out.")
    return kind(**{name: values[name].value for name in flags_of(kind)})


def _take_values(name: str, argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns (the values of --NAME=VALUE and --NAME VALUE, the command line without them)."""
    values, rest, words = [], [], iter(argv)
    for word in words:
        found = re.fullmatch(f"--?{name}(=.*)?", word, re.DOTALL)
        if not found:
            rest.append(word)
            continue
        values.append(found[1][1:] if found[1] else next(words, ""))
        if not values[-1]:
            raise ValueError(f"--{name} needs a value: --{name}=…")
    return values, rest


# ---- mistakes


def _refuse_unknown_names(argv: Sequence[str], expected: dict[str, str]) -> None:
    """Raises ValueError for a flag that does not exist, with the nearest that does."""
    negated = {f"no{name}" for name, value in expected.items() if value == VALUES[bool]}
    for word in argv[1:]:
        if word == "--":
            return
        name = re.match("--?([A-Za-z][^=]*)", word)
        if name and name[1] not in expected and name[1] not in negated:
            nearest = _nearest(name[1], expected)
            hint = f"did you mean --{nearest}?" if nearest else "see --help."
            raise ValueError(f"there is no --{name[1]}; {hint}")


def _nearest(name: str, known: Collection[str]) -> str:
    """Returns the known name that is most like an unknown one, or "".

    That may be what others call it, a setting of the group that was named, or one of this name in
    another group.
    """
    leaf = f".{name.rpartition('.')[2]}"
    if (synonym := f"config.{SYNONYMS.get(leaf[1:])}") in known:
        return synonym
    alike = [other for other in known if other.startswith(f"{name}.") or other.endswith(leaf)]
    return next(iter(alike or difflib.get_close_matches(name, known, 1, 0.5)), "")


def _explained(parse: Callable[[], T], expected: dict[str, str]) -> T:
    """Returns what `parse` returns; raises ValueError with a sentence for what absl raises."""
    try:
        return parse()
    except MISTAKES as error:
        text = " ".join(str(error).split())
    wrong = re.match("flag --([^=]+)=(.*?): ", text)
    if wrong and wrong[1] in expected:
        raise ValueError(f"--{wrong[1]} must be {expected[wrong[1]]}, not '{wrong[2]}'.")
    raise ValueError(text)
