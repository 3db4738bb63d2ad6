"""Flags of a command, declared with all their rules as the fields of a dataclass.

    @dataclass(frozen=True)
    class Flags:
        input: str = flag("", "File to translate.", metavar="FILE")
        output: str = flag("", "File for the translations.", metavar="FILE", needs=("input",))
        top_k: int | None = flag(None, "Sample from the k most probable tokens.")

`command_line.parse_flags` reads them from a command line, `check_flags` refuses combinations that
make no sense, and `help_lines` prints them. A flag is given if its value is not its default.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from transformer.data.files import text as text_files
from transformer.files import storage
from transformer.workdir import split_checkpoint

T = TypeVar("T")
LARGEST = 2**31 - 1  # as of the settings: a seed or a length beyond it is no int32


@dataclass(frozen=True)
class FlagRules:
    """What `check_flags` and `help_lines` know of a flag besides its name, type and default."""

    help: str
    metavar: str = ""  # what its value is, as FILE
    needs: Sequence[str] = ()  # one of these flags has to be given too
    excludes: Mapping[str, str] = field(default_factory=dict)  # {flag it cannot be used with: why}
    unless: str = ""  # a flag that lifts `excludes`
    tasks: Sequence[str] = ()  # of the runs on which it has an effect; empty: of all
    at_least: int | None = None
    at_most: int = LARGEST
    is_input_file: bool = False  # it has to exist, or be - for standard input


@dataclass(frozen=True)
class Flag:
    """A flag of the command line."""

    name: str
    type: type  # str, int, float or bool
    choices: Sequence[str]  # what its value may be; empty: anything of its type
    default: Any  # of its type, or None
    rules: FlagRules

    @property
    def usage(self) -> str:
        """The flag as one types it: "--input=FILE"."""
        return f"--{self.name}={self.rules.metavar}" if self.rules.metavar else f"--{self.name}"

    def fits(self, task: str) -> bool:
        """Whether the flag has an effect on a run of `task`."""
        return not self.rules.tasks or task in self.rules.tasks


def flag(default: T, help: str, **rules: Any) -> T:
    """Returns a dataclass field that is a flag; `rules` are the fields of `FlagRules`."""
    metadata = {"rules": FlagRules(help, **rules)}
    return cast(T, field(default=default, metadata=metadata))


def flags_of(kind: type) -> dict[str, Flag]:
    """Returns the flags that a dataclass declares, by name; those that it inherits come last."""
    hints, own = get_type_hints(kind), kind.__annotations__
    fields = sorted(dataclasses.fields(kind), key=lambda found: found.name not in own)
    flags = {}
    for found in fields:
        value_type, choices = _type_and_choices(hints[found.name])
        rules = found.metadata["rules"]
        flags[found.name] = Flag(found.name, value_type, choices, found.default, rules)
    return flags


def _type_and_choices(hint: Any) -> tuple[type, Sequence[str]]:
    """Reads a type hint: `int | None` -> (int, ()), `Literal["a"]` -> (str, ("a",))."""
    if get_origin(hint) is types.UnionType or type(None) in get_args(hint):
        (hint,) = (option for option in get_args(hint) if option is not type(None))
    return (str, get_args(hint)) if get_origin(hint) is Literal else (hint, ())


def given_flags(flags: Any) -> dict[str, Any]:
    """Returns {name: value} of the flags whose value is not their default."""
    return {
        name: getattr(flags, name)
        for name, declared in flags_of(type(flags)).items()
        if getattr(flags, name) != declared.default
    }


def check_flags(flags: Any, task: str = "") -> None:
    """Raises ValueError for a flag that makes no sense beside the others.

    task: the task of the run that the command is for; flags that have no effect on it are refused.
    """
    known, given = flags_of(type(flags)), given_flags(flags)
    for name, value in given.items():
        rules = known[name].rules
        if not known[name].fits(task):
            raise ValueError(
                f"--{name} has no effect on a run of {task}: leave it out (it is for a run of "
                f"{' or '.join(rules.tasks)})."
            )
        if rules.at_least is not None and value < rules.at_least:
            raise ValueError(f"--{name} must be at least {rules.at_least}, not {value}.")
        if type(value) is int and value > rules.at_most:
            raise ValueError(f"--{name} must be at most {rules.at_most:,}, not {value}.")
        needed = [known[other] for other in rules.needs if known[other].fits(task)]
        if needed and not any(other.name in given for other in needed):
            usages = " or ".join(other.usage for other in needed)
            raise ValueError(f"--{name} needs {usages}: add that, or leave out --{name}.")
        for other, reason in rules.excludes.items():
            if other in given and rules.unless not in given:
                raise ValueError(f"--{name} cannot be used with --{other}: {reason}.")


def input_files(flags: Any) -> list[tuple[str, str]]:
    """Returns (name, path) for each file that a flag that was given names for reading."""
    known, given = flags_of(type(flags)), given_flags(flags)
    files = {name: text for name, text in given.items() if known[name].rules.is_input_file}
    return [(name, path) for name, text in files.items() for path in split_files(text)]


def split_files(text: str, is_there: Callable[[str], bool] = text_files.is_readable) -> list[str]:
    """Returns the paths of a list with commas; one that `is_there` keeps the commas of its name."""
    parts, paths = text.split(","), []
    while parts:
        longest_first = range(len(parts), 0, -1)
        count = next((n for n in longest_first if is_there(",".join(parts[:n]))), 1)
        paths.append(",".join(parts[:count]))
        parts = parts[count:]
    return paths


def split_runs(text: str) -> list[str]:
    """Returns the work directories of a list as `split_files` does, perhaps with @CHECKPOINT."""

    def is_there(run: str) -> bool:
        return storage.locate(split_checkpoint(run.strip())[0]).exists()

    return [run.strip() for run in split_files(text, is_there)]


def check_input_files(flags: Any) -> None:
    """Raises ValueError if a file to read does not exist, or several are standard input."""
    files = input_files(flags)
    for name, path in files:
        if path != "-" and not text_files.is_readable(path):
            raise ValueError(f"--{name} must be a file (or -); {path} does not exist.")
    if [path for _, path in files].count("-") > 1:
        names = ", ".join(f"--{name}" for name in dict(files))
        raise ValueError(f"only one of {names} can be - (standard input).")


def help_lines(kind: type) -> list[str]:
    """Returns lines on each flag: what it takes, its default, and what it goes with."""
    known, lines = flags_of(kind), []
    for declared in known.values():
        lines.append(f"  {declared.usage}: {declared.rules.help}")
        if facts := _facts(declared, known):
            lines.append(f"      {'; '.join(facts)}")
    return lines


def _facts(declared: Flag, known: Mapping[str, Flag]) -> list[str]:
    """Returns what the rules of a flag say: "needs --input", "not with --reference"."""
    rules, facts = declared.rules, []
    if declared.choices:
        facts.append(" or ".join(declared.choices))
    if declared.default not in (None, "", False):
        facts.append(f"default: {declared.default}")
    if rules.needs:
        tasks = [
            task for task in rules.tasks if any(known[name].fits(task) for name in rules.needs)
        ]
        where = f" on runs of {', '.join(tasks)}" if tasks != list(rules.tasks) else ""
        facts.append("needs " + " or ".join(f"--{name}" for name in rules.needs) + where)
    if rules.excludes:
        excluded = ", ".join(f"--{name}" for name in rules.excludes)
        facts.append(f"not with {excluded}" + (f" unless --{rules.unless}" if rules.unless else ""))
    if rules.tasks:
        facts.append(f"for runs of {', '.join(rules.tasks)}")
    return facts
