"""Reads settings of ours from a command line: --set=model.attention=fused --set=model.d_ff=64."""

import argparse
import json
from typing import Any


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds --set, which may be repeated, for `read_settings`."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of ours"
    )


def read_settings(changes: list[str]) -> dict[str, Any]:
    """Returns {name: value} of texts NAME=VALUE, in which a number is a number; exits on others."""
    settings = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals:
            raise SystemExit(f"--set must be NAME=VALUE, as model.attention=fused, not {change}")
        try:
            settings[name] = json.loads(text)
        except json.JSONDecodeError:
            settings[name] = text
    return settings
