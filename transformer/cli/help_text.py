"""What --help, --version and --print_config print."""

import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence

import transformer
from transformer.cli.command_line import chosen_config, wants
from transformer.cli.config_files import DEFAULT_CONFIG
from transformer.cli.flags import help_lines
from transformer.config import Config
from transformer.console import print_results

LAST_FLAGS = [
    "  --help: Print this, and stop.",
    "  --version: Print the versions of this package and of Python, and stop.",
]


def answers_information(argv: Sequence[str], make_help: Callable[[], str]) -> bool:
    """Prints what --help or --version asks for; returns whether the command line has either."""
    if wants("help", argv):
        text = make_help()
    elif wants("version", argv):
        text = version_text()
    else:
        return False
    print_results([text])
    return True


def help_text(usage: str | None, kind: type) -> str:
    """Returns what --help prints. usage: the docstring of the command."""
    lines = wrapped([*help_lines(kind), *LAST_FLAGS], indent=6)
    return "\n".join([(usage or "").strip(), "", "Flags:", *lines])


def help_with_config(usage: str | None, kind: type, argv: Sequence[str]) -> str:
    """Returns what --help prints of a command that has a configuration.

    The settings are shown with the values of the configuration that --config or --workdir name,
    or with their defaults if there is neither.
    """
    words = (word.lstrip("-").split("=")[0] for word in argv[1:])
    if {"config", "workdir"}.isdisjoint(words):
        config, values = Config(), "their defaults where the file of --config sets no other"
    else:
        config, values = chosen_config(kind, argv), "the values of the configuration named"
    current, settings = config.values(), []
    for setting in Config.settings():
        override = f"--config.{setting.name}={current[setting.name]!r}"
        settings.append(f"  {override:<46} {setting.help_with_choices}")
    return "\n".join(
        [
            help_text(usage, kind),
            "  --config=FILE: Python file with get_config(), or the name of a shipped one.",
            f"      default: config.json of the run in --workdir; without one, {DEFAULT_CONFIG}",
            "",
            f"Settings, with {values}:",
            *wrapped(settings, indent=49),
        ]
    )


def wrapped(lines: Iterable[str], indent: int) -> list[str]:
    """Returns lines of at most 100 columns; those that continue another begin with blanks."""
    wrapper = textwrap.TextWrapper(100, subsequent_indent=" " * indent, break_long_words=False)
    return [part for line in lines for part in wrapper.wrap(line)]


def version_text() -> str:
    """Returns what --version prints."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"transformer {transformer.__version__} (Python {python})"


def config_text(config: Config) -> str:
    """Returns what --print_config prints: a line of Python per setting, as for a file of --config.

    A value that is not the default is followed by the default.
    """
    values = config.values()
    lines = []
    for setting in Config.settings():
        value, default = values[setting.name], setting.default
        note = f"  # default: {default!r}" if value != default else ""
        lines.append(f"config.{setting.name} = {value!r}{note}")
    return "\n".join(lines)
