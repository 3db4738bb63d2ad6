"""Plans an ablation: the configuration of each of its rows, checked before anything is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transformer.config import Config
from transformer.config.python_files import explaining_errors, run_file
from transformer.console import say

STEP_SETTINGS = (  # they count steps, and go along with `training.num_train_steps`
    "optimizer.warmup_steps",
    "optimizer.decay_steps",
    "training.eval_every",
    "training.checkpoint_every",
)


@dataclass(frozen=True)
class Row:
    """A variation of a base configuration.

    changes: {setting: (value in the base, value in this row)}. published: what a paper reports of
    it, by the name of the score.
    """

    name: str
    config: Config
    changes: dict[str, tuple[Any, Any]]
    published: Mapping[str, float]

    @property
    def summary(self) -> str:
        """The changes in words: "num_heads 4 → 1"."""
        changes = [
            f"{name.rpartition('.')[2]} {before} → {after}"
            for name, (before, after) in self.changes.items()
        ]
        return ", ".join(changes) or "the base"


def read_rows(path: str, base: Config, names: Sequence[str] = ()) -> list[Row]:
    """Returns the rows of a Python file with ROWS = {name: {setting: value}}, perhaps PUBLISHED.

    A value may be a function of the base's configuration. names: of the rows, the first being what
    the others are compared with; none for all. A row that is no other model than one before it, as
    rounding can make it with a small base, is left out. Raises ValueError, which names the file,
    for an unknown name, or a row whose settings cannot be used.
    """
    with explaining_errors(path):
        module = run_file(path)
        rows, published = getattr(module, "ROWS", None), getattr(module, "PUBLISHED", {})
        if not isinstance(rows, Mapping) or not rows:
            raise ValueError('it must define ROWS = {"name": {"group.setting": value}}.')
        for name in names or rows:
            if name not in rows:
                raise ValueError(f"there is no row '{name}'; the rows are {', '.join(rows)}.")
    planned: list[Row] = []
    for name in names or rows:
        try:
            config = base.with_values(rows[name]).validate()
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: row {name}: {error}") from error
        same = next((row.name for row in planned if row.config == config), None)
        if same:
            say(f"row {name} is left out: with this base it is the same as {same}")
        else:
            planned.append(Row(name, config, base.differences(config), published.get(name, {})))
    return planned


def with_num_steps(config: Config, num_steps: int) -> Config:
    """Returns a configuration that trains for `num_steps`, with its schedule scaled along."""
    values, planned = config.values(), config.training.num_train_steps
    scaled = {
        name: max(1, round(values[name] * num_steps / planned))
        for name in STEP_SETTINGS
        if values[name] > 0 and planned > 0  # else it is off, or to be chosen
    }
    return config.with_values(scaled | {"training.num_train_steps": num_steps})
