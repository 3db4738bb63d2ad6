"""Which names of the package a program uses that is not run: those of a page, or of a script."""

import ast
import re
from importlib import import_module
from operator import attrgetter

import transformer

OF_CONFIG = re.compile(r"config\.(\w+\.\w+)")
OURS = re.compile(r"transformer(\..*)?")


def check_names(program):
    """Fails unless all that a program takes from `transformer` is there, and its settings too."""
    for node in ast.walk(ast.parse(program)):
        text = ast.unparse(node) if isinstance(node, ast.ImportFrom | ast.Attribute) else ""
        if isinstance(node, ast.ImportFrom) and OURS.fullmatch(node.module or ""):
            for alias in node.names:
                assert hasattr(import_module(node.module), alias.name), text
        elif text.startswith("transformer."):
            attrgetter(text.removeprefix("transformer."))(transformer)
        elif setting := OF_CONFIG.fullmatch(text):
            attrgetter(setting[1])(transformer.Config())
