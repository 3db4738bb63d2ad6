"""Examples of what to do with a finished run."""

import json
from typing import NamedTuple

from transformer.workdir import WorkDir


class NextCommands(NamedTuple):
    """Examples of what to do with a finished run; "" where there is none."""

    input_line: str = ""  # for eval.py --input=-
    python: str = ""  # one line of a program


def commands_for_text(workdir: WorkDir, predictor: type, method: str, text: str) -> NextCommands:
    """Returns how a run is given a text: by a method of `predictor` that takes a list."""
    folder, given = (json.dumps(x, ensure_ascii=False) for x in (str(workdir.path), text))
    name = predictor.__name__
    program = f"print({name}.from_checkpoint({folder}).{method}([{given}])[0])"
    return NextCommands(text, f"from transformer import {name}; {program}")
