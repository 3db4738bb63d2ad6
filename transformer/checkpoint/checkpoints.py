"""Saves checkpoints with Orbax in the background and verifies them when they are restored.

Orbax does not notice a flipped bit and takes a stray folder for the newest step. Each step
therefore carries a fingerprint of every array, and restoring falls back, with a warning, to the
newest step that is intact. A score comes after its checkpoint, and so into a file of its own.
"""

import json
import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils.epath import PathLike

import transformer
from transformer import storage
from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.orbax_manager import best_of, make_manager
from transformer.checkpoint.train_state import Params, TrainState
from transformer.reading import parse_json

T = TypeVar("T")
SCORES = "scores.json"  # in the folder of the checkpoints: {step: score}


class Loaded(NamedTuple):
    """Parameters by the name of a checkpoint.

    name: what was loaded, as shown to users: "best (1200)", "1200" or "mean of 5 (1000 to 1200)".
    step: its step, of a mean the newest. num_averaged: number of checkpoints in the mean, or 1.
    """

    name: str
    step: int
    num_averaged: int
    params: Params


class Checkpoints:
    """The checkpoints in one folder, named by their steps.

    keep: the number of newest checkpoints to keep besides the best one. Orbax refuses to save or
    delete anything if the folder is opened `read_only`.
    """

    def __init__(self, folder: PathLike, *, keep: int, read_only: bool = False) -> None:
        self.folder, self.keep = storage.absolute(folder), keep
        self._scores: dict[int, float] = {}
        self._manager = make_manager(self.folder, keep, self._scores, read_only)
        self._scores.update(self._read_scores())
        self._known_good: set[int] = set()  # saved or restored by this object
        self._abstract_params: Params = None  # shapes and types, once they have been read

    def save(self, state: TrainState, trained: Mapping[str, float] | None = None) -> None:
        """Starts to save a state under its step.

        A step that exists already is replaced only if it may be damaged, and only while there is
        another step to fall back on. trained: how much training led to the state, for `about`.
        """
        step = int(state.step)
        params, rest = state.split()
        if step in self.steps():
            if step in self._known_good or len(self.steps()) == 1:
                return
            self._manager.delete(step)
        about = {
            "format": 1,
            "version": transformer.__version__,
            "trained": dict(trained or {}),
            "fingerprints": {"params": fingerprints(params), "rest": fingerprints(rest)},
        }
        self._manager.save(
            step,
            args=ocp.args.Composite(
                params=ocp.args.PyTreeSave(params),
                rest=ocp.args.PyTreeSave(rest),
                about=ocp.args.JsonSave(about),
            ),
            force=True,
        )
        self._known_good.add(step)

    def record_score(self, step: int, score: float) -> None:
        """Notes the score of a step; the highest one marks the best checkpoint, which is kept."""
        if not math.isfinite(score) or self._scores.get(step) == score:
            return
        self._scores[step] = score
        if jax.process_index() == 0:
            scores = {str(step): self._scores[step] for step in sorted(self._scores)}
            storage.write_atomically(self.folder / SCORES, json.dumps(scores) + "\n")

    def _read_scores(self) -> dict[int, float]:
        file = self.folder / SCORES
        if file.is_file():
            return {int(step): score for step, score in parse_json(file.read_text()).items()}
        noted = {step: self._manager.metrics(step) for step in self.steps()}  # by version 0.2
        return {step: metrics["score"] for step, metrics in noted.items() if metrics}

    def wait(self) -> None:
        """Waits until every save is on disk; raises the error of a save that failed."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits for every save and ends Orbax's threads."""
        self._manager.close()

    def steps(self) -> list[int]:
        """Returns the steps in the folder, oldest first."""
        return sorted(self._manager.all_steps())

    def best_step(self) -> int | None:
        """Returns the step with the highest score, None if no step has a score."""
        return best_of(self.steps(), self._scores)

    def about(self, step: int) -> dict[str, Any]:
        """Returns the notes beside the arrays of a step: format, version, trained, fingerprints."""
        about = ocp.args.Composite(about=ocp.args.JsonRestore())
        return self._manager.restore(step, args=about)["about"]

    def restore(self, like: TrainState, step: int | None = None) -> TrainState:
        """Restores `step`, by default the newest intact one, with the shardings of `like`.

        Raises ValueError if there is no such step or none is intact.
        """

        def read(step: int) -> TrainState:
            params, rest = like.split()
            restored = self._read(step, {"params": params, "rest": rest})
            self._known_good.add(step)
            return restored["rest"].join(restored["params"])

        return self._first_intact(step, read)

    def restore_params(self, step: int | None = None) -> tuple[int, Params]:
        """Returns (step, parameters as numpy arrays), whatever devices wrote them.

        step and errors are those of `restore`.
        """

        def read(step: int) -> tuple[int, Params]:
            like = self._abstract_params or self._read_abstract_params(step)
            params = jax.device_get(self._read(step, {"params": like})["params"])
            # Kept, as all steps of a run agree and reading it takes as long as the parameters.
            self._abstract_params = like
            return step, params

        return self._first_intact(step, read)

    def _read_abstract_params(self, step: int) -> Params:
        tree = self._manager.item_metadata(step)["params"].tree
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device), tree)

    def load(self, name: str | int, num_averaged: int = 1) -> Loaded:
        """Loads the parameters of "last", "best", a step, "average:N" or "default".

        "default" is the mean of the last `num_averaged` checkpoints if that is above 1, else the
        best, else the last. Raises ValueError if there is no such checkpoint.
        """
        name, best = str(name), self.best_step()
        if name == "default":
            name = f"average:{num_averaged}" if num_averaged > 1 else "best"
            if name == "best" and best is None:
                name = "last"
        if name == "best" and best is None:
            raise ValueError(f"No checkpoint of {self.folder} has a score yet; use 'last'.")
        kind, _, number = name.rpartition(":")
        if kind == "average" and number.isdigit() and int(number):
            return self._load_average(int(number))
        if name not in ("last", "best") and not name.isdigit():
            raise ValueError(
                f"A checkpoint is 'last', 'best', a step or 'average:N', not '{name}'."
            )
        wanted = {"last": None, "best": best}
        step, params = self.restore_params(wanted[name] if name in wanted else int(name))
        return Loaded(f"{step}" if name.isdigit() else f"{name} ({step})", step, 1, params)

    def _load_average(self, count: int) -> Loaded:
        """Loads the mean of the `count` newest checkpoints (paper, section 6.1)."""
        if count > self.keep:
            raise ValueError(
                f"A mean of {count} checkpoints needs training.keep_checkpoints={count} when "
                f"training; it was {self.keep}."
            )
        steps = self.steps()[-count:]
        if not steps:
            raise ValueError(_no_checkpoint(self.folder))
        total = self.restore_params(steps[0])[1]
        for step in steps[1:]:
            total = jax.tree.map(np.add, total, self.restore_params(step)[1])
        mean = jax.tree.map(lambda x: x / np.asarray(len(steps), x.dtype), total)
        name = f"mean of {len(steps)} ({steps[0]} to {steps[-1]})"
        return Loaded(name, steps[-1], len(steps), mean)

    def _read(self, step: int, targets: dict[str, Any]) -> Any:
        """Restores the items {name: abstract tree} of a step and compares their fingerprints."""
        items = {
            name: ocp.args.PyTreeRestore(
                target, restore_args=ocp.checkpoint_utils.construct_restore_args(target)
            )
            for name, target in targets.items()
        }
        restored = self._manager.restore(
            step, args=ocp.args.Composite(about=ocp.args.JsonRestore(), **items)
        )
        for name in targets:
            if fingerprints(restored[name]) != restored["about"]["fingerprints"][name]:
                raise ValueError(f"the {name} on disk are not those that were saved")
        return restored

    def _first_intact(self, step: int | None, read: Callable[[int], T]) -> T:
        """Returns `read(step)`, by default of the newest step for which it does not fail."""
        steps = self.steps() if step is None else [step]
        if not steps:
            raise ValueError(_no_checkpoint(self.folder))
        if step is not None and step not in self.steps():
            raise ValueError(f"{self.folder} holds the steps {self.steps()}, not {step}.")
        for candidate in reversed(steps):
            try:
                return read(candidate)
            except Exception as error:  # Orbax raises eight types of error for damaged files
                reason = str(error).split("\n")[0][:200]
                warnings.warn(f"Checkpoint {candidate} cannot be used: {reason}", stacklevel=3)
        raise ValueError(
            f"No checkpoint of {self.folder} could be restored; see the warnings above."
        )


def _no_checkpoint(folder: PathLike) -> str:
    return f"{folder} holds no checkpoint; train first, or name another work directory."
