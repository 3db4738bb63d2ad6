"""Flags of a command, declared with all their rules as the fields of a dataclass.

    @dataclass(frozen=True)
    class Flags:
        input: str = flag("", "File to translate.", "FILE")
        output: str = flag("", "File for the translations.", "FILE", needs=("input",))
        top_k: int | None = flag(None, "Sample from the k most probable tokens.")

`command_line.parse` reads them from a command line, `check_flags` refuses combinations that make
no sense, and `help_lines` prints them. A flag is given if its value is not its default.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, cast, get_args, get_type_hints

from transformer.config.python_files import DEFAULT_CONFIG
from transformer.data.files import text as text_files
from transformer.files import storage
from transformer.workdir import split_checkpoint

T = TypeVar("T")
LARGEST = 2**31 - 1  # as of the settings: a seed or a length beyond it is no int32


@dataclass(frozen=True)
class Flag:
    """A flag of the command line.

    type: str, int, float or bool. metavar: what its value is, as FILE. choices: what it may be;
    empty: anything of its type. needs: one of these flags has to be given too. excludes:
    {flag it cannot be used with: why}. tasks: of the runs on which it has an effect; empty: of all.
    is_input_file: whether its file has to exist, or be - for standard input.
    """

    name: str
    type: type
    default: Any
    help: str
    metavar: str = ""
    choices: Sequence[str] = ()
    needs: Sequence[str] = ()
    excludes: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    at_least: int | None = None
    at_most: int = LARGEST
    is_input_file: bool = False

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
    types = {
        name: next(iter(get_args(hint)), hint) for name, hint in hints.items()
    }  # of int | None
    own_first = sorted(fields(kind), key=lambda each: each.name not in kind.__annotations__)
    return {f.name: Flag(f.name, types[f.name], f.default, **f.metadata) for f in own_first}


def given_flags(flags: Any) -> dict[str, Any]:
    """Returns {name: value} of the flags whose value is not their default."""
    values = {each.name: (getattr(flags, each.name), each.default) for each in fields(flags)}
    return {name: value for name, (value, default) in values.items() if value != default}


def check_flags(flags: Any, task: str = "") -> None:
    """Raises ValueError for a flag that makes no sense beside the others.

    task: the task of the run that the command is for; flags that have no effect on it are refused.
    """
    known, given = flags_of(type(flags)), given_flags(flags)
    for name, value in given.items():
        rules = known[name]
        needed = [known[other] for other in rules.needs if known[other].fits(task)]
        usages = " or ".join(other.usage for other in needed)
        other = next((other for other in rules.excludes if other in given), "")
        mistakes = {
            f"has no effect on a run of {task}: leave it out (it is for a run of "
            f"{' or '.join(rules.tasks)})": not rules.fits(task),
            f"must be at least {rules.at_least}, not {value}": (
                rules.at_least is not None and value < rules.at_least
            ),
            f"must be at most {rules.at_most:,}, not {value}": (
                type(value) is int and value > rules.at_most
            ),
            f"needs {usages}: add that, or leave out --{name}": (
                needed and not any(each.name in given for each in needed)
            ),
            f"cannot be used with --{other}: {rules.excludes.get(other)}": other,
        }
        for sentence, is_made in mistakes.items():
            if is_made:
                raise ValueError(f"--{name} {sentence}.")
    inputs = {name: split_files(given[name]) for name in given if known[name].is_input_file}
    for name, paths in inputs.items():
        for path in paths:
            if path != "-" and not text_files.is_readable(path):
                raise ValueError(f"--{name} must be a file (or -); {path} does not exist.")
    if sum(paths.count("-") for paths in inputs.values()) > 1:
        names = ", ".join(f"--{name}" for name in inputs)
        raise ValueError(f"only one of {names} can be - (standard input).")


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

    return [run.strip() for run in split_files(text, is_there)] if text else []


def help_lines(kind: type) -> list[str]:
    """Returns lines on each flag: what it takes, its default, and what it goes with."""
    lines = []
    for known in flags_of(kind).values():
        facts = [" or ".join(known.choices)] if known.choices else []
        facts += [f"default: {known.default}"] if known.default not in (None, "", False) else []
        for title, names in (("needs", known.needs), ("not with", known.excludes)):
            joined = (" or " if title == "needs" else ", ").join(f"--{name}" for name in names)
            facts += [f"{title} {joined}"] if names else []
        facts += [f"for runs of {', '.join(known.tasks)}"] if known.tasks else []
        lines += [f"  {known.usage}: {known.help}", *[f"      {'; '.join(facts)}"] * bool(facts)]
    return lines
