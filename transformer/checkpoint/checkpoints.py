"""Saves checkpoints with Orbax in the background and verifies them when they are restored.

Orbax does not notice a flipped bit and takes a stray folder for the newest step. Each step
therefore carries a fingerprint of every array, and restoring falls back, with a warning, to the
newest step that is intact. A score comes after its checkpoint, and so into a file of its own.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils.epath import PathLike

from transformer import storage
from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.intact import each_intact
from transformer.checkpoint.notes import check_notes, make_notes
from transformer.checkpoint.orbax_manager import best_first, best_of, make_manager
from transformer.checkpoint.run_identity import RunIdentity
from transformer.checkpoint.score_file import ScoreFile
from transformer.checkpoint.train_state import Params, TrainState

T = TypeVar("T")


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

    keep: the number of newest ones to keep besides the best. read_only: nothing is saved or
    deleted. run: what they belong to, which each notes and which is checked when one is read.
    """

    def __init__(
        self,
        folder: PathLike,
        *,
        keep: int,
        read_only: bool = False,
        run: RunIdentity | None = None,
    ) -> None:
        self.folder, self.keep = storage.absolute(folder), keep
        self._run, self._read_only = run, read_only
        self._scores = ScoreFile(self.folder)
        self._manager = make_manager(self.folder, keep, self._scores.by_step, read_only)
        self._scores.read(self._manager)
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
        about = make_notes(
            step,
            trained=dict(trained or {}),
            fingerprints={"params": fingerprints(params), "rest": fingerprints(rest)},
            run=self._run.notes() if self._run else None,
            num_scores=len(self._scores.by_step),
        )
        arrays = {"params": ocp.args.PyTreeSave(params), "rest": ocp.args.PyTreeSave(rest)}
        items = ocp.args.Composite(about=ocp.args.JsonSave(about), **arrays)
        self._manager.save(step, args=items)
        self._known_good.add(step)

    def record_score(self, step: int, score: float, loss: float = math.inf) -> None:
        """Notes the score of a step; the highest one marks the best checkpoint, which is kept.

        Of equal scores the lower validation loss is better, then the earlier step. loss: infinite
        if it is not known.
        """
        self._scores.record(step, score, loss)

    def wait(self) -> None:
        """Waits until every save is on disk, and writes scores that could not be written before.

        Raises the error of what failed.
        """
        self._manager.wait_until_finished()
        self._scores.write()

    def close(self) -> None:
        """Waits for every save and ends Orbax's threads."""
        self._manager.close()

    def steps(self) -> list[int]:
        """Returns the steps in the folder, oldest first."""
        return sorted(self._manager.all_steps())

    def best_step(self) -> int | None:
        """Returns the best step, as `record_score` says; None if no step has a score."""
        return best_of(self.steps(), self._scores.by_step)

    def about(self, step: int) -> dict[str, Any]:
        """Returns the notes beside the arrays of a step, as `make_notes` made them in `save`."""
        return self._checked(step, self._manager.notes(step))

    def _checked(self, step: int, about: dict[str, Any]) -> dict[str, Any]:
        """Returns the notes of a step; raises ValueError if they are damaged or of another run."""
        check_notes(step, about)
        if self._run and about.get("run"):
            self._run.check(about["run"], resumes=not self._read_only)
            if self._read_only and (changed := self._run.changed_decoding(about["run"])):
                warnings.warn(f"{self._run.folder}: {changed}.", stacklevel=4)
        return about

    def restore(self, like: TrainState, step: int | None = None) -> TrainState:
        """Restores `step`, by default the newest intact one, with the shardings of `like`.

        Raises ValueError if there is no such step or none is intact.
        """

        def read(step: int) -> TrainState:
            params, rest = like.split()
            restored = self._read(step, {"params": params, "rest": rest})
            self._known_good.add(step)
            return restored["rest"].join(restored["params"])

        return self._first_intact(self.steps()[::-1] if step is None else [step], read)[1]

    def restore_params(self, step: int) -> Params:
        """Returns the parameters of a step as numpy arrays, whatever devices wrote them.

        Raises whatever Orbax does if they are damaged, or ValueError.
        """
        like = self._abstract_params or self._read_abstract_params(step)
        params = jax.device_get(self._read(step, {"params": like})["params"])
        # Kept, as all steps of a run agree and reading it takes as long as the parameters.
        self._abstract_params = like
        return params

    def _read_abstract_params(self, step: int) -> Params:
        tree = self._manager.item_metadata(step)["params"].tree
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device), tree)

    def load(self, name: str | int, num_averaged: int = 1) -> Loaded:
        """Loads the parameters of "last", "best", a step, "average:N" or "default".

        "default" is the mean of the last `num_averaged` checkpoints if that is above 1, else the
        best, else the last. In place of a damaged one, unless a step is asked for, comes the next
        best, or the next older, and a warning. Raises ValueError if there is no such checkpoint.
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
        if name.isdigit():
            step, params = self._first_intact([int(name)], self.restore_params)
            return Loaded(name, step, 1, params)
        if name not in ("last", "best"):
            raise ValueError(
                f"A checkpoint is 'last', 'best', a step or 'average:N', not '{name}'."
            )
        wanted = self.steps()[::-1] if name == "last" else self._best_first()
        step, params = self._first_intact(wanted, self.restore_params)
        of_intact = "" if step == wanted[0] else " of those intact"
        return Loaded(f"{name}{of_intact} ({step})", step, 1, params)

    def _best_first(self) -> list[int]:
        """Returns the steps that have a score, the best first."""
        ranked, steps = best_first(self._scores.by_step), self.steps()
        if ranked[0] not in steps:
            warnings.warn(
                f"The step with the best score, {ranked[0]}, has no checkpoint in {self.folder}: "
                f"the next best is used",
                stacklevel=4,
            )
        return [step for step in ranked if step in steps]

    def _load_average(self, count: int) -> Loaded:
        """Loads the mean of the `count` newest checkpoints (paper, section 6.1) that are intact."""
        if count > self.keep:
            raise ValueError(
                f"A mean of {count} checkpoints needs training.keep_checkpoints={count} when "
                f"training; it was {self.keep}."
            )
        total: Params = None
        steps = []
        for step, params in each_intact(self.steps()[-count:], self.restore_params, self.folder):
            total = jax.tree.map(np.add, total, params) if steps else params
            steps.append(step)
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
        about = self._checked(step, restored["about"])
        for name in targets:
            if fingerprints(restored[name]) != about["fingerprints"][name]:
                raise ValueError(f"the {name} on disk are not those that were saved")
        return restored

    def _first_intact(self, steps: Sequence[int], read: Callable[[int], T]) -> tuple[int, T]:
        """Returns (step, `read(step)`) of the first of some steps for which it does not fail."""
        if missing := set(steps) - set(self.steps()):
            raise ValueError(f"{self.folder} holds the steps {self.steps()}, not {min(missing)}.")
        return next(each_intact(steps, read, self.folder))
