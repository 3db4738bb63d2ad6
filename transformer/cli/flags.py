"""Flags of a command, declared with all their rules as the fields of a dataclass.

    @dataclass(frozen=True)
    class Flags:
        input: str = flag("", "File to translate.", "FILE")
        output: str = flag("", "File for the translations.", "FILE", needs=("input",))
        top_k: int | None = flag(None, "Sample from the k most probable tokens.")

`command_line.parse` reads them from a command line, `CommonFlags.validate` refuses combinations
that make no sense, and `help_lines` prints them. A flag is given if its value is not its default.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, get_args, get_type_hints

from transformer.config.python_files import DEFAULT_CONFIG
from transformer.data.files.text import is_readable
from transformer.files import storage
from transformer.workdir import split_checkpoint

T = TypeVar("T")
LARGEST = 2**31 - 1  # as of the settings: a seed or a length beyond it is no int32


@dataclass(frozen=True)
class Flag:
    """A flag of the command line.

    type: str, int, float or bool. metavar: what its value is, as FILE. choices: what it may be;
    empty: anything of its type. needs: one of these flags has to be given too. excludes: none of
    these may be. tasks: of the runs on which it has an effect; empty: of all. reads: whether it
    names files that have to exist, or - for standard input. writes: whether it names a file whose
    folder has to exist.
    """

    name: str
    type: type
    default: Any = None
    help: str = ""
    metavar: str = ""
    choices: Sequence[str] = ()
    needs: Sequence[str] = ()
    excludes: Sequence[str] = ()
    tasks: Sequence[str] = ()
    at_least: int | None = None
    at_most: int = LARGEST
    reads: bool = False
    writes: bool = False

    @property
    def usage(self) -> str:
        """The flag as one types it: "--input=FILE"."""
        return f"--{self.name}={self.metavar}" if self.metavar else f"--{self.name}"

    def fits(self, task: str) -> bool:
        """Whether the flag has an effect on a run of `task`."""
        return not self.tasks or task in self.tasks


def flag(default: T, help: str, metavar: str = "", **rules: Any) -> T:
    """Returns a dataclass field that is a flag; `rules` are further fields of `Flag`."""
    return cast(T, field(default=default, metadata={"help": help, "metavar": metavar, **rules}))


REGISTER = flag(
    "",
    "Python files to run first, which register attention functions, tasks, metrics and the like "
    "(transformer.register_…).",
    "FILES",
)
CONFIG = flag(
    "",
    "Python file with get_config(), or the name of a shipped one; without it, the configuration of "
    f"the run in --workdir, else {DEFAULT_CONFIG}.",
    "FILE",
)


@dataclass(frozen=True)
class CommonFlags:
    """The flags of every command."""

    help: bool = flag(False, "Print this, and stop.")
    version: bool = flag(False, "Print the versions of this package and of Python, and stop.")

    def given(self, *names: str) -> dict[str, Any]:
        """Returns {name: value} of the flags that are given; names: of which alone."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        defaults = {f.name: f.default for f in fields(self)}
        return {n: values[n] for n in names or values if values[n] != defaults[n]}

    def validate(self, task: str = "") -> None:
        """Raises ValueError for a flag that makes no sense by itself or beside the others.

        task: of the run that the command is for; flags that have no effect on it are refused.
        """
        known, given = flags_of(type(self)), self.given()
        for name, value in given.items():
            for mistake in _mistakes(known[name], value, known, given.keys(), task):
                raise ValueError(f"--{name} {mistake}.")
        inputs = {f"--{name}": split_paths(given[name]) for name in given if known[name].reads}
        if sum(paths.count("-") for paths in inputs.values()) > 1:
            raise ValueError(f"only one of {', '.join(inputs)} can be - (standard input).")


@dataclass(frozen=True)
class HostFlags(CommonFlags):
    """How one of several processes finds the others; none is needed where JAX knows the cluster."""

    coordinator: str = flag(
        "", "Address of process 0; not needed on TPU slices, Slurm and Open MPI.", "HOST:PORT"
    )
    num_processes: int = flag(0, "Number of processes in all; 0: not given.", "N")
    process_id: int = flag(-1, "Index of this process, from 0; -1: not given.", "N")


def flags_of(kind: type) -> dict[str, Flag]:
    """Returns the flags that a dataclass declares, by name; those that it inherits come last."""
    hints = get_type_hints(kind)
    types = {name: next(iter(get_args(hint)), hint) for name, hint in hints.items()}  # int | None
    own_first = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)
    return {f.name: Flag(f.name, types[f.name], f.default, **f.metadata) for f in own_first}


def _mistakes(
    rules: Flag, value: Any, known: Mapping[str, Flag], given: Collection[str], task: str
) -> Iterator[str]:
    """Yields which rules a value breaks, beside the flags that are given too."""
    if not rules.fits(task):
        tasks = " or ".join(rules.tasks)
        yield f"has no effect on a run of {task}: leave it out (it is for a run of {tasks})"
    if rules.at_least is not None and value < rules.at_least:
        yield f"must be at least {rules.at_least}, not {value}"
    if type(value) is int and value > rules.at_most:
        yield f"must be at most {rules.at_most:,}, not {value}"
    needed = [known[name] for name in rules.needs if known[name].fits(task)]
    if needed and not any(other.name in given for other in needed):
        usages = " or ".join(other.usage for other in needed)
        yield f"needs {usages}: add that, or leave out --{rules.name}"
    for name in rules.excludes:
        if name in given:
            yield f"cannot be used with --{name}: leave out one of them"
    for path in split_paths(value) if rules.reads else ():
        if path != "-" and not is_readable(path):
            yield f"must be a file (or -); {path} does not exist"
    if rules.writes and not storage.is_remote(value):
        real = os.path.realpath(value)
        if os.path.isdir(real) or not os.path.isdir(os.path.dirname(real)):
            yield f"must be a file in a folder that exists, not {value}"


def split_paths(text: str) -> list[str]:
    """Returns the paths of a list with commas, those of runs perhaps with @CHECKPOINT.

    One that exists keeps the commas of its name.
    """
    parts, paths = text.split(",") if text else [], []
    while parts:
        joined = [",".join(parts[:count]).strip() for count in range(len(parts), 0, -1)]
        there = (path for path in joined if storage.locate(split_checkpoint(path)[0]).exists())
        path = next(there, joined[-1])
        paths.append(path)
        parts = parts[len(parts) - joined.index(path) :]
    return paths


def help_lines(kind: type) -> list[str]:
    """Returns lines on each flag: what it takes, its default, and what it goes with."""
    lines = []
    for known in flags_of(kind).values():
        facts = {
            "": " or ".join(known.choices),
            "default: ": "" if known.default in (None, False) else str(known.default),
            "needs ": " or ".join(f"--{name}" for name in known.needs),
            "not with ": ", ".join(f"--{name}" for name in known.excludes),
            "for runs of ": ", ".join(known.tasks),
        }
        text = "; ".join(title + fact for title, fact in facts.items() if fact)
        lines += [f"  {known.usage}: {known.help}", *[f"      {text}"] * bool(text)]
    return lines
