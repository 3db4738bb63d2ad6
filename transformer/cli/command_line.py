"""Reads a command line into flags, words and a configuration, and answers --help and --version."""

import difflib
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import transformer
from transformer.cli.flags import CommonFlags, Flag, flags_of, help_lines
from transformer.cli.process import run_guarded, run_process
from transformer.config import Config
from transformer.config.python_files import (
    DEFAULT_CONFIG,
    explaining_errors,
    find_config,
    load_config_file,
    run_file,
)
from transformer.config.setting import SYNONYMS
from transformer.console import print_results, say
from transformer.exit_codes import DONE
from transformer.workdir import WorkDir

F = TypeVar("F", bound=CommonFlags)
FLAG = re.compile("--?([A-Za-z][^=]*)(=.*)?", re.DOTALL)
EXPECTED = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


@dataclass(frozen=True)
class CommandLine(Generic[F]):
    """What a command line says.

    flags: an instance of the command's dataclass. words: those that are no flags. settings: {name:
    value} of each --config.GROUP.NAME.
    """

    flags: F
    words: list[str]
    settings: Mapping[str, Any]

    @cached_property
    def chosen_config(self) -> Config:
        """What --config and --workdir choose, before any of its settings; raises ValueError."""
        name, run = vars(self.flags)["config"], WorkDir(vars(self.flags)["workdir"])
        if not name and run.has_run:
            say(f"no --config: going on with {run.path / 'config.json'}")
            return run.load_config()
        path, _, argument = find_config(name or DEFAULT_CONFIG).partition(":")
        return load_config_file(path, argument)

    @cached_property
    def config(self) -> Config:
        """The valid configuration of the command line; raises ValueError."""
        return self.chosen_config.with_values(self.settings).validate()


@dataclass(frozen=True)
class Command(Generic[F]):
    """A command: `main(argv)` runs it in this process, `main.run()` as this process.

    work: does what a command line says; returns the exit code. usage: the docstring, for --help.
    kind, words: as of `parse`.
    """

    work: Callable[[CommandLine[F]], int]
    kind: type[F]
    usage: str | None
    words: Sequence[str] = ()

    def __call__(self, argv: Sequence[str]) -> int:
        """Returns the exit code, or raises SystemExit with it; argv: as of `parse`."""
        return run_guarded(lambda: self._answer(argv))

    def run(self) -> NoReturn:
        """Ends this process with the exit code of its own command line."""
        run_process(self)

    def _answer(self, argv: Sequence[str]) -> int:
        line = parse(self.kind, argv, self.words)
        if line.flags.help:
            print_results([help_text(self.usage, line)])
        elif line.flags.version:
            python = ".".join(map(str, sys.version_info[:3]))
            print_results([f"transformer {transformer.__version__} (Python {python})"])
        else:
            return self.work(line)
        return DONE


def parse(kind: type[F], argv: Sequence[str], words: Sequence[str] = ()) -> CommandLine[F]:
    """Returns what a command line says, and runs the files of --register.

    kind: the dataclass of the flags; one with `config` also has --config.GROUP.NAME=VALUE. argv:
    the words of the command line, the first of them the program. words: what is expected besides
    flags, as ("FOLDER", "[NAME]"). Raises ValueError, in one sentence.
    """
    flags = flags_of(kind)
    settings = Config.settings() if "config" in flags else ()
    known = flags | {f"config.{each.name}": Flag(each.name, each.type) for each in settings}
    given, rest = _split(argv[1:], known)
    files = [text for name, text in given if name == "config"]
    if len(files) > 1:
        raise ValueError(f"--config was given {len(files)} times: {', '.join(files)}; name one.")
    values = {name: _value(name, text, known[name]) for name, text in given}
    made = kind(**{name: value for name, value in values.items() if name in flags})
    is_right_number = sum("[" not in word for word in words) <= len(rest) <= len(words)
    if not (made.help or made.version or is_right_number):
        expected = " ".join(words) or "only --flags"
        raise ValueError(f"this command takes {expected}, not '{' '.join(rest)}'; see --help.")
    for path in filter(None, values.get("register", "").split(",")):
        if Path(path).suffix != ".py" or not Path(path).is_file():
            raise ValueError(f"--register must name a Python file, not {path}.")
        with explaining_errors(path):
            run_file(path)
    changes = {known[name].name: value for name, value in values.items() if name not in flags}
    return CommandLine(made, rest, changes)


def _split(
    words: Sequence[str], known: Mapping[str, Flag]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Returns ((name, text of the value) of each flag in order, the words that are no flags)."""
    given, rest, ahead = [], [], iter(words)
    for word in ahead:
        match = FLAG.fullmatch(word)
        if word == "--":
            rest += ahead
        elif not match:
            rest.append(word)
        elif (name := {"h": "help"}.get(match[1], match[1])) in known:
            follows = "true" if known[name].type is bool else None
            text = match[2][1:] if match[2] else follows or next(ahead, "")
            given.append((name, text))
        elif (off := known.get(name.removeprefix("no"))) and off.type is bool and not match[2]:
            given.append((name.removeprefix("no"), "false"))
        else:
            nearest = _nearest(name, known)
            hint = f"did you mean --{nearest}?" if nearest else "see --help."
            raise ValueError(f"there is no --{name}; {hint}")
    return given, rest


def _value(name: str, text: str, rules: Flag) -> Any:
    """Returns the value that a text stands for."""
    expected = f"one of {', '.join(rules.choices)}" if rules.choices else EXPECTED[rules.type]
    try:
        value = TRUTH[text.lower()] if rules.type is bool else rules.type(text)
    except (KeyError, ValueError):
        value = None
    if value is None or (rules.choices and text not in rules.choices):
        raise ValueError(f"--{name} must be {expected}, not '{text}'.")
    if text == "" and rules.default is not None:
        raise ValueError(f"--{name} needs a value: --{name}=…")
    return value


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


# ---- help


def help_text(usage: str | None, line: CommandLine[Any]) -> str:
    """Returns what --help prints. usage: the docstring of the command.

    Settings are shown with the values of the configuration that --config or --workdir name, or with
    their defaults if there is neither.
    """
    lines = _wrapped(help_lines(type(line.flags)), indent=6)
    text = [(usage or "").strip(), "", "Flags:", *lines]
    if hasattr(line.flags, "config"):
        config, values = Config(), "their defaults where the file of --config sets no other"
        if line.flags.given("config", "workdir"):
            config, values = line.chosen_config, "the values of the configuration named"
        current = config.values()
        settings = (
            f"  {f'--config.{known.name}={current[known.name]!r}':<46} {known.help_with_choices}"
            for known in Config.settings()
        )
        text += ["", f"Settings, with {values}:", *_wrapped(settings, indent=49)]
    return "\n".join(text)


def _wrapped(lines: Iterable[str], indent: int) -> list[str]:
    """Returns lines of at most 100 columns; those that continue another begin with blanks."""
    wrapper = textwrap.TextWrapper(100, subsequent_indent=" " * indent, break_long_words=False)
    return [part for line in lines for part in wrapper.wrap(line)]
