"""What --help, --version and --print_config print."""

import sys
from collections.abc import Sequence

import transformer
from transformer.cli.command_line import chosen_config
from transformer.cli.config_files import DEFAULT_CONFIG
from transformer.cli.flags import help_lines
from transformer.config import Config

LAST_FLAGS = [
    "  --help: Print this, and stop.",
    "  --version: Print the versions of this package and of Python, and stop.",
]


def help_text(usage: str | None, kind: type) -> str:
    """Returns what --help prints. usage: the docstring of the command."""
    return "\n".join([(usage or "").strip(), "", "Flags:", *help_lines(kind), *LAST_FLAGS])


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
    lines = [
        help_text(usage, kind),
        "  --config=FILE: Python file with get_config(), or the name of a shipped one.",
        f"      default: config.json of the run in --workdir; without a run, {DEFAULT_CONFIG}",
        "",
        f"Settings, with {values}:",
    ]
    current = config.values()
    for setting in Config.settings():
        override = f"--config.{setting.name}={current[setting.name]!r}"
        lines.append(f"  {override:<48} {setting.help_with_choices}")
    return "\n".join(lines)


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
