"""Saves checkpoints with Orbax in the background and verifies them when they are restored.

Orbax does not notice a flipped bit and takes a stray folder for the newest step. Each step
therefore carries a fingerprint of every array, and restoring falls back, with a warning, to the
newest step that is intact. Scores come after their checkpoints, and are read in metrics.jsonl.
"""

import errno
import json
import math
import os
import re
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils.epath import PathLike

from transformer.checkpoint.about import NewerFormatError, check_about, lost_records, make_about
from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.orbax_manager import Manager
from transformer.checkpoint.train_state import Params, TrainState, merge
from transformer.config import Config
from transformer.exit_codes import ResumableError
from transformer.files import storage
from transformer.files.reading import reason_of
from transformer.workdir import WorkDir

T = TypeVar("T")
SCORE = "selection_score"  # in a record of metrics.jsonl: higher for a better checkpoint
# Errors that say nothing of the file: it may be read at another time. Those of stores are text.
PASSING = errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE, errno.ENOMEM
PASSING_TEXTS = *map(os.strerror, PASSING), "DEADLINE_EXCEEDED", "UNAVAILABLE"
BASE_FILE = "base.json"  # in the work directory of adapters: which parameters they adapt


class Loaded(NamedTuple):
    """Parameters that were loaded by the name of a checkpoint."""

    name: str  # as users see it: "best (1200)", "1200" or "mean of 5 (1000 to 1200)"
    step: int  # of a mean the newest
    num_averaged: int  # checkpoints in the mean, or 1
    params: Params
    about: dict[str, Any]  # as `about.make_about` returns it


class Checkpoints:
    """The checkpoints in one folder of a work directory, named by their steps.

    keep: the number of newest ones to keep besides the best. read_only: nothing is saved or
    deleted. scores: (score, validation loss) of the steps that were evaluated. base: the parameters
    of another run, of which those saved here are adapters; None if they are no adapters.
    """

    def __init__(self, folder: PathLike, *, keep: int, read_only: bool = False) -> None:
        self.folder, self.keep = storage.absolute(folder), keep
        self.base: Params = None
        self._workdir = WorkDir(self.folder.parent)
        self.scores: dict[int, tuple[float, float]] = {}
        for record in self._workdir.read_metrics():
            if isinstance(score := record.get(SCORE), float):
                self.record_score(record["step"], score, record.get("validation_loss", math.inf))
        self._manager = Manager(self.folder, keep, self.best_step, read_only=read_only)
        self._known_good: set[int] = set()  # saved or restored by this object
        self._abstract_params: Params = None  # those of all steps, once they have been read

    def save(self, state: TrainState, **notes: Any) -> None:
        """Starts to save a state under its step; notes: what is saved beside it, as JSON.

        A step that exists already is replaced only if it may be damaged, and only while there is
        another step to fall back on.
        """
        step = int(state.step)
        params, rest = state.split()
        if step in self.steps():
            if step in self._known_good or len(self.steps()) == 1:
                return
            self._manager.delete(step)
        prints = {"params": fingerprints(params), "rest": fingerprints(rest)}
        about = make_about(step, fingerprints=prints, **notes)
        arrays = {"params": ocp.args.PyTreeSave(params), "rest": ocp.args.PyTreeSave(rest)}
        items = ocp.args.Composite(about=ocp.args.JsonSave(about), **arrays)
        self._manager.save(step, args=items)
        self._known_good.add(step)

    def record_score(self, step: int, score: float, loss: float = math.inf) -> None:
        """Takes the score of a step, unless it is no number; the highest marks the best checkpoint.

        Of equal scores the lower validation loss is better, then the earlier step.
        """
        if math.isfinite(score):
            self.scores[step] = score, loss if math.isfinite(loss) else math.inf

    def wait(self) -> None:
        """Waits until every save is on disk; raises the error of one that failed."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Waits for every save and ends Orbax's threads."""
        self._manager.close()

    def steps(self) -> list[int]:
        """Returns the steps in the folder, oldest first."""
        return sorted(self._manager.all_steps())

    def best_step(self, steps: Sequence[int] | None = None) -> int | None:
        """Returns the best of some steps (None: those saved); None if none has a score."""
        return next(iter(self._ranked(self.steps() if steps is None else steps)), None)

    def _ranked(self, steps: Collection[int]) -> list[int]:
        """Returns those of some steps that have a score, the best first, as `record_score` says."""
        order = {step: (-score, loss, step) for step, (score, loss) in self.scores.items()}
        return sorted(order.keys() & set(steps), key=order.__getitem__)

    def about(self, step: int) -> dict[str, Any]:
        """Returns what a step holds beside its arrays; raises ValueError if that is damaged."""
        return self._read(step, {})["about"]

    def restore(self, like: TrainState) -> TrainState:
        """Restores the newest intact step, with the shardings of `like`; ValueError if none is."""
        params, rest = like.split()

        def read(step: int) -> TrainState:
            restored = self._read(step, {"params": params, "rest": rest})
            return restored["rest"].join(restored["params"])

        step, state = next(self._each_intact(self.steps()[::-1], read))
        self._known_good.add(step)
        return state

    def restore_params(self, step: int) -> Params:
        """Returns the parameters of a step as numpy arrays, whatever devices wrote them."""
        if not self._abstract_params:  # reading it takes as long as the parameters
            tree = self._manager.item_metadata(step)["params"].tree
            device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
            self._abstract_params = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device), tree
            )
        params = self._read(step, {"params": self._abstract_params})["params"]
        return jax.device_get(merge(self.base, params) if self.base else params)

    def load(self, name: str | int, num_averaged: int = 1) -> Loaded:
        """Loads the parameters of "last", "best", a step, "average:N" or "default".

        "default" is the mean of the last `num_averaged` checkpoints if that is above 1, else the
        best, else the last. In place of a damaged one, unless a step is asked for, comes the next
        best, or the next older, and a warning. Raises ValueError if there is no such checkpoint.
        """
        name = str(name)
        self.check(name)
        if name == "default" and num_averaged > 1:
            name = f"average:{num_averaged}"
        if name.startswith("average:"):
            return self._load_average(int(name.removeprefix("average:")))
        steps = self.steps()
        wanted = [int(name)] if name.isdigit() else steps[::-1]
        if name in ("default", "best"):
            with suppress(Exception):  # any type: restoring will say what is damaged
                if lost := lost_records(self._workdir, self.about(steps[-1])):
                    warnings.warn(lost, stacklevel=3)
            best, ever = self._ranked(steps), self._ranked(self.scores)
            if name == "best" and not best:
                raise ValueError(f"No checkpoint of {self.folder} has a score yet; use 'last'.")
            if best and best[0] != ever[0]:
                warnings.warn(
                    f"The step with the best score, {ever[0]}, has no checkpoint in "
                    f"{self.folder}: the next best is used",
                    stacklevel=3,
                )
            name, wanted = ("best", best) if best else ("last", wanted)
        step, params = next(self._each_intact(wanted, self.restore_params))
        of_intact = "" if step == wanted[0] else " of those intact"
        shown = name if name.isdigit() else f"{name}{of_intact} ({step})"
        return Loaded(shown, step, 1, params, self.about(step))

    def check(self, name: str) -> None:
        """Raises ValueError for what is no name of a checkpoint, or a step that is not saved."""
        if not re.fullmatch(r"last|best|default|[0-9]+|average:[1-9][0-9]*", name):
            raise ValueError(
                f"A checkpoint is 'last', 'best', a step or 'average:N', not '{name}'."
            )
        if name.isdigit() and int(name) not in self.steps():
            raise ValueError(f"{self.folder} holds the steps {self.steps()}, not {name}.")

    def _load_average(self, count: int) -> Loaded:
        """Loads the mean of the `count` newest checkpoints (paper, section 6.1) that are intact."""
        if count > self.keep:
            raise ValueError(
                f"A mean of {count} checkpoints needs training.keep_checkpoints={count} when "
                f"training; it was {self.keep}."
            )
        total, steps = None, []
        for step, params in self._each_intact(self.steps()[-count:], self.restore_params):
            total = jax.tree.map(np.add, total, params) if steps else params
            steps.append(step)
        mean = jax.tree.map(lambda x: x / np.asarray(len(steps), x.dtype), total)
        name = f"mean of {len(steps)} ({steps[0]} to {steps[-1]})"
        return Loaded(name, steps[-1], len(steps), mean, self.about(steps[-1]))

    def _read(self, step: int, targets: dict[str, Any]) -> Any:
        """Restores the items {name: abstract tree} of a step and compares their fingerprints."""
        items: dict[str, Any] = {"about": ocp.args.JsonRestore()}
        for name, target in targets.items():
            restore_args = ocp.checkpoint_utils.construct_restore_args(target)
            items[name] = ocp.args.PyTreeRestore(target, restore_args=restore_args)
        restored = self._manager.restore(step, args=ocp.args.Composite(**items))
        check_about(step, restored["about"])
        for name in targets:
            if fingerprints(restored[name]) != restored["about"]["fingerprints"][name]:
                raise ValueError(f"the {name} on disk are not those that were saved")
        return restored

    def _each_intact(
        self, steps: Sequence[int], read: Callable[[int], T]
    ) -> Iterator[tuple[int, T]]:
        """Yields (step, `read(step)`) of each step for which it does not fail; warns of others.

        Raises ValueError if there are no steps or all fail. A checkpoint of a newer version, or one
        that cannot be read at the moment (ResumableError), raises at once: to train on from an
        older step would undo its training.
        """
        if not steps:
            raise ValueError(
                f"{self.folder} holds no checkpoint; train first, or name another work directory."
            )
        num_intact = 0
        for step in steps:
            try:
                result = read(step)
            except NewerFormatError as error:
                raise ValueError(f"Checkpoint {step} of {self.folder}: {error}.") from None
            except Exception as error:  # Orbax raises eight types of error for damaged files
                reason, is_passing = reason_of(error), any(t in str(error) for t in PASSING_TEXTS)
                if is_passing and isinstance(error, jax.errors.JaxRuntimeError):
                    raise  # another host is lost
                if is_passing:
                    raise ResumableError(
                        f"{self.folder}/{step} cannot be read at the moment ({reason}): start "
                        f"again, or remove this checkpoint to use an older one."
                    ) from error
                warnings.warn(f"Checkpoint {step} cannot be used: {reason}", stacklevel=4)
            else:
                num_intact += 1
                yield step, result
        if not num_intact:
            raise ValueError(
                f"No checkpoint of {self.folder} could be restored; see the warnings above."
            )


def open_for_reading(run: WorkDir, config: Config) -> Checkpoints:
    """Opens the checkpoints of a run for restoring only; `config` is what it was trained with."""
    return Checkpoints(run.checkpoints, keep=config.training.keep_checkpoints, read_only=True)


def load_checkpoint(
    workdir: WorkDir, config: Config | None = None, checkpoint: str | int = "default"
) -> Loaded:
    """Loads a checkpoint of a run by its name; adapters as the parameters of the adapted model.

    config: what the run was trained with; None: that of its config.json.
    """
    config = config or workdir.load_config()
    checkpoints = open_for_reading(workdir, config)
    if config.training.lora_rank:
        checkpoints.base = load_base(workdir)
    return checkpoints.load(checkpoint, config.decoding.average_checkpoints)


def load_base(workdir: WorkDir, init_from: str = "") -> Params:
    """Loads the parameters that the adapters in `workdir` adapt.

    init_from: the run whose parameters they adapt from now on, which is noted; "": the run that was
    noted. Raises ValueError if that is not where it was, or is no longer what it was.
    """
    file = workdir / BASE_FILE
    noted = {} if init_from else json.loads(file.read_text(encoding="utf-8"))
    base = WorkDir(init_from or noted["base"])
    if noted and not base.has_run:
        raise ValueError(
            f"{workdir.path} holds adapters of the run {base.path}, which is not there; put it "
            f'back, or name its new folder as "base" in {file}.'
        )
    loaded = load_checkpoint(base)
    checksum = zlib.crc32(np.array(fingerprints(loaded.params), np.uint32).tobytes())
    if noted and checksum != noted["checksum"]:
        raise ValueError(
            f"{workdir.path} holds adapters of {noted['checkpoint']} of {base.path}, whose default "
            f"checkpoint is now {loaded.name} with other parameters; put back the former one."
        )
    if init_from and workdir.writes:
        path = str(storage.absolute(base.path))
        note = {"base": path, "checkpoint": loaded.name, "checksum": checksum}
        storage.write_atomically(file, json.dumps(note, indent=2) + "\n")
    return loaded.params
