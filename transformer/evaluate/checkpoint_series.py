"""Several checkpoints of a run, one after the other in one compiled translator."""

import re
import warnings

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.evaluate.metrics import scores_in
from transformer.inference.translator import Translator
from transformer.workdir import WorkDir


def choose_checkpoints(path, text):
    """The names in a list like "best,average:5,200"; "all" is every step that is there.

    A single name is left to `Translator.from_checkpoint`; of several each must be one, and a step
    be there.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) == 1 and names != ["all"]:
        return names
    workdir = WorkDir(path)
    steps = list(map(str, open_for_reading(workdir.path, workdir.load_config()).steps()))
    for name in names:
        if not re.fullmatch(r"all|last|best|default|\d+|average:[1-9]\d*", name):
            raise ValueError(
                f"--checkpoints are 'last', 'best', 'all', steps or 'average:N' with commas "
                f"between, not '{name}'."
            )
        if name.isdigit() and name not in steps:
            raise ValueError(
                f"{workdir.checkpoints} holds the steps {', '.join(steps)}, not {name}."
            )
    chosen = [step for name in names for step in (steps if name == "all" else [name])]
    return list(dict.fromkeys(chosen))


def each_checkpoint(path, names, **settings):
    """Yields one `Translator` with the parameters of each checkpoint in turn.

    So what it compiled for the first serves all. Of several, one that cannot be read is left out
    with a warning. settings: dtype and batch_size, as `Translator.from_checkpoint` takes them.
    """
    translator = None
    for name in names:
        try:
            restored = Translator.from_checkpoint(path, name, **settings)
        except ValueError as error:
            if len(names) == 1:
                raise
            warnings.warn(f"checkpoint {name} is left out: {error}", stacklevel=2)
            continue
        translator = translator or restored
        translator.params, translator.checkpoint = restored.params, restored.checkpoint
        yield translator
    if translator is None:
        raise ValueError(f"None of the checkpoints {', '.join(names)} can be read.")


def checkpoint_row(result):
    """The row of one checkpoint: its name, its (last) step, its scores."""
    step = re.search(r"(\d+)\)?$", result.checkpoint)
    step = int(step[1]) if step else None
    return {"checkpoint": result.checkpoint, "step": step, **result.scores}


def table_lines(rows):
    """A table of the rows of `checkpoint_row`: its head, and a line each."""
    lines = [("checkpoint", *(score.name for score in scores_in(rows[0]).values()))]
    for row in rows:
        lines.append((row["checkpoint"], *(score.figures for score in scores_in(row).values())))
    return [f"{name:<28}{''.join(f'{cell:>18}' for cell in cells)}" for name, *cells in lines]
