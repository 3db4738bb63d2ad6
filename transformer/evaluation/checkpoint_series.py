"""Evaluates several checkpoints of a run, one after the other in one compiled translator."""

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from etils.epath import PathLike

from transformer.checkpoint.open_run import open_for_reading
from transformer.checkpoint.restore import restore
from transformer.evaluation.evaluation import Evaluation
from transformer.evaluation.scores import Score
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
    workdir = WorkDir(path)
    steps = saved_steps(workdir)
    for name in names:
        if name != "all":
            check_checkpoint(workdir, name, steps)
    chosen = [step for name in names for step in (steps if name == "all" else [name])]
    return list(dict.fromkeys(chosen))


def saved_steps(workdir: WorkDir) -> list[str]:
    """Returns the steps that a run has saved."""
    return list(map(str, open_for_reading(workdir, workdir.load_config()).steps()))


def check_checkpoint(workdir: WorkDir, name: str, steps: Sequence[str]) -> None:
    """Raises ValueError if `name` is no name of a checkpoint, or a step that is not in `steps`."""
    if not re.fullmatch(r"last|best|default|\d+|average:[1-9]\d*", name):
        raise ValueError(
            f"--checkpoints are 'last', 'best', 'all', steps or 'average:N' with commas between, "
            f"not '{name}'."
        )
    if name.isdigit() and name not in steps:
        raise ValueError(f"{workdir.checkpoints} holds the steps {', '.join(steps)}, not {name}.")


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


@dataclass(frozen=True)
class CheckpointRow:
    """The scores of one of several checkpoints.

    checkpoint, step, num_averaged, scores: as those of `Evaluation`.
    """

    checkpoint: str
    step: int | None
    num_averaged: int
    scores: dict[str, Score]

    def to_json(self) -> dict[str, Any]:
        """Returns the row of report.json."""
        scores = {name: score.to_json() for name, score in self.scores.items()}
        return {"checkpoint": self.checkpoint, "step": self.step, **scores}


def checkpoint_row(result: Evaluation) -> CheckpointRow:
    """Returns what is kept of one evaluation among several."""
    return CheckpointRow(result.checkpoint, result.step, result.num_averaged, result.scores)


def table_lines(rows: Sequence[CheckpointRow]) -> list[str]:
    """Returns a table of fixed widths, so that rows can be printed one by one; headings first."""
    lines = [("checkpoint", *(score.name for score in rows[0].scores.values()))]
    lines += [(row.checkpoint, *(score.figures for score in row.scores.values())) for row in rows]
    return [f"{name:<28}{''.join(f'{cell:>18}' for cell in cells)}" for name, *cells in lines]
