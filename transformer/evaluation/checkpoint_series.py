"""Evaluates several checkpoints of a run, one after the other in one compiled translator."""

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from etils.epath import PathLike

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.checkpoint.restore import restore
from transformer.evaluation.scores import TaskScores, plain_table
from transformer.exit_codes import ResumableError
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir


def choose_checkpoints(path: PathLike, text: str) -> list[str]:
    """Returns the names in a list like "best,average:5,200"; "all" stands for every saved step.

    A single name is left to `restore` to check. Raises ValueError if one of several is no name of
    a checkpoint, or a step that the run at `path` has not saved.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) == 1 and names != ["all"]:
        return names
    steps = check_checkpoints(WorkDir(path), [name for name in names if name != "all"])
    chosen = [step for name in names for step in (steps if name == "all" else [name])]
    return list(dict.fromkeys(chosen))


def check_checkpoints(workdir: WorkDir, names: Sequence[str]) -> list[str]:
    """Returns the steps that a run has saved.

    Raises ValueError if one of `names` is no name of a checkpoint, or a step that is not saved.
    """
    steps = list(map(str, open_for_reading(workdir, workdir.load_config()).steps()))
    for name in names:
        if not re.fullmatch(r"last|best|default|\d+|average:[1-9]\d*", name):
            raise ValueError(
                f"--checkpoints are 'last', 'best', 'all', steps or 'average:N' with commas "
                f"between, not '{name}'."
            )
        if name.isdigit() and name not in steps:
            raise ValueError(
                f"{workdir.checkpoints} holds the steps {', '.join(steps)}, not {name}."
            )
    return steps


def each_checkpoint(path: PathLike, names: Sequence[str], **settings: Any) -> Iterator[Translator]:
    """Yields one and the same `Translator` with the parameters of each checkpoint in turn.

    The programs compiled for the first checkpoint serve all. settings: dtype and batch_size, as
    `restore` takes them. If there are several, one that cannot be read is left out with a warning.
    Raises ValueError if none can be read.
    """
    translator = None
    for name in names:
        try:
            restored = restore(path, name, tasks=Translator.tasks, **settings)
        except (ValueError, ResumableError) as error:
            if len(names) == 1:
                raise
            warnings.warn(f"checkpoint {name} is left out: {error}", stacklevel=2)
            continue
        translator = translator or Translator(restored)
        translator.use(restored)
        yield translator
    if translator is None:
        raise ValueError(f"None of the checkpoints {', '.join(names)} can be read.")


def checkpoint_table(checkpoints: Sequence[TaskScores]) -> list[str]:
    """Returns the lines of a table with the scores of each checkpoint."""
    rows = [
        {"checkpoint": row.checkpoint, **{s.name: s.figures for s in row.scores.values()}}
        for row in checkpoints
    ]
    return plain_table(rows, "lr")
