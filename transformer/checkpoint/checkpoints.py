"""Checkpoints: saved by Orbax in the background, verified by our own fingerprints when restored.

Orbax does not notice a flipped bit and lets a stray folder pass for the newest step; so each step
carries a fingerprint of every array, and restoring goes back, with a warning, to the newest good
one.
"""

import logging
import warnings

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint.checkpoint_managers import preservation_policy

import transformer
from transformer import storage
from transformer.checkpoint.fingerprint import fingerprints
from transformer.workdir import WorkDir

# Orbax announces at every restore that a folder opened for reading is read-only.
logging.getLogger("absl").addFilter(lambda record: "is read only" not in record.getMessage())


class Checkpoints:
    """The checkpoints of one folder. keep: how many of the newest to keep besides the best."""

    def __init__(self, folder, *, keep=1, read_only=False):
        self.folder, self.keep = storage.absolute(folder), keep
        policies = [
            preservation_policy.LatestN(keep),
            preservation_policy.BestN(
                get_metric_fn=_score_of, n=1, keep_checkpoints_without_metrics=False
            ),
        ]
        options = ocp.CheckpointManagerOptions(
            preservation_policy=preservation_policy.AnyPreservationPolicy(policies),
            best_fn=_score_of,  # without it Orbax does not store the scores
            read_only=read_only,
            save_interval_steps=0 if read_only else 1,
            create=not read_only,
        )
        handlers = {
            "params": ocp.PyTreeCheckpointHandler(),
            "rest": ocp.PyTreeCheckpointHandler(),
            "about": ocp.JsonCheckpointHandler(),
        }
        self._manager = ocp.CheckpointManager(self.folder, item_handlers=handlers, options=options)
        self._params_like = None  # shapes and types

    def save(self, state, score=None):
        """Starts to save a TrainState under its step; `score` decides which is the best.

        A step that is there already is replaced if there is a score to add, and another step to
        fall back on meanwhile.
        """
        params, rest = state.params, state.replace(params=None)
        about = {
            "format": 1,
            "version": transformer.__version__,
            "fingerprints": {"params": fingerprints(params), "rest": fingerprints(rest)},
        }
        if int(state.step) in self.steps():
            if score is None or len(self.steps()) == 1:
                return
            self._manager.delete(int(state.step))
        self._manager.save(
            int(state.step),
            args=ocp.args.Composite(
                params=ocp.args.PyTreeSave(params),
                rest=ocp.args.PyTreeSave(rest),
                about=ocp.args.JsonSave(about),
            ),
            metrics=None if score is None else {"score": float(score)},
            force=True,
        )

    def wait(self):
        """Until what was started is on disk; raises what went wrong there."""
        self._manager.wait_until_finished()

    def close(self):
        self._manager.close()

    def steps(self):
        """The steps that are there, oldest first."""
        return sorted(self._manager.all_steps())

    def best_step(self):
        """The step with the highest score, None if none has one."""
        scored = [(self._manager.metrics(step), step) for step in self.steps()]
        scored = [(metrics["score"], step) for metrics, step in scored if metrics]
        return max(scored)[1] if scored else None

    def about(self, step):
        """What was noted beside the arrays of a step, their fingerprints among it."""
        return self._manager.restore(step, args=ocp.args.Composite(about=ocp.args.JsonRestore()))[
            "about"
        ]

    def restore(self, like, step=None):
        """The newest good TrainState, or that of `step`; placed and typed as `like`."""

        def read(step):
            target = {"params": like.params, "rest": like.replace(params=None)}
            restored = self._read(step, target)
            return restored["rest"].replace(params=restored["params"])

        return self._first_good(step, read)

    def restore_params(self, step=None):
        """(step, parameters) as numpy arrays, whatever devices wrote them."""

        def read(step):
            like = self._params_like or self._read_params_like(step)
            params = jax.device_get(self._read(step, {"params": like})["params"])
            self._params_like = like  # of every step of a run; to read it takes as long as they do
            return step, params

        return self._first_good(step, read)

    def _read_params_like(self, step):
        tree = self._manager.item_metadata(step)["params"].tree
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=device), tree)

    def load(self, name, num_averaged=1):
        """(what was loaded, parameters) of "last", "best", a step, "average:N" or "default".

        default: the mean of the last `num_averaged` if that is above 1, else the best, else the
        last.
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
            return self._average_params(int(number))
        if name not in ("last", "best") and not name.isdigit():
            raise ValueError(
                f"A checkpoint is 'last', 'best', a step or 'average:N', not '{name}'."
            )
        wanted = {"last": None, "best": best}
        step, params = self.restore_params(wanted[name] if name in wanted else int(name))
        return f"{step}" if name.isdigit() else f"{name} ({step})", params

    def _average_params(self, last):
        """The mean of the parameters of the `last` newest checkpoints (paper, section 6.1)."""
        if last > self.keep:
            raise ValueError(
                f"A mean of {last} checkpoints needs training.keep_checkpoints={last} when "
                f"training; it was {self.keep}."
            )
        steps = self.steps()[-last:]
        if not steps:
            raise ValueError(_nothing_in(self.folder))
        total = self.restore_params(steps[0])[1]
        for step in steps[1:]:
            total = jax.tree.map(np.add, total, self.restore_params(step)[1])
        mean = jax.tree.map(lambda x: x / np.asarray(len(steps), x.dtype), total)
        return f"mean of {len(steps)} ({steps[0]} to {steps[-1]})", mean

    def _read(self, step, targets):
        """Restores some items of a step and compares their fingerprints."""
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

    def _first_good(self, step, read):
        steps = self.steps() if step is None else [step]
        if not steps:
            raise ValueError(_nothing_in(self.folder))
        if step is not None and step not in self.steps():
            raise ValueError(f"{self.folder} holds the steps {self.steps()}, not {step}.")
        for candidate in reversed(steps):
            try:
                return read(candidate)
            except Exception as error:  # Orbax raises damaged files in eight types
                reason = str(error).split("\n")[0][:200]
                warnings.warn(f"Checkpoint {candidate} cannot be used: {reason}", stacklevel=3)
        raise ValueError(
            f"No checkpoint of {self.folder} could be restored; see the warnings above."
        )


def _score_of(metrics):
    return metrics["score"]


def _nothing_in(folder):
    return f"{folder} holds no checkpoint; train first, or name another work directory."


def open_for_reading(workdir, config):
    """The checkpoints of a work directory, for restoring only."""
    keep = config.training.keep_checkpoints
    return Checkpoints(WorkDir(workdir).checkpoints, keep=keep, read_only=True)


def warm_start(state, workdir):
    """(state with the parameters of another run where name and shape agree, a note of how many).

    What the other run lacks stays fresh, and so does the optimizer. ValueError if nothing agrees.
    """
    config = WorkDir(workdir).load_config()
    checkpoints = open_for_reading(workdir, config)
    restored = checkpoints.load("default", config.decoding.average_checkpoints)[1]
    theirs = dict(jax.tree_util.tree_leaves_with_path(restored))
    taken = []

    def choose(path, ours):
        found = theirs.get(path)
        if found is None or found.shape != ours.shape:
            return ours
        taken.append(path)
        return jax.device_put(found.astype(ours.dtype), ours.sharding)

    params = jax.tree_util.tree_map_with_path(choose, state.params)
    num_ours = len(jax.tree.leaves(state.params))
    if not taken:
        raise ValueError(
            f"{workdir} has no weight of the same name and shape; nothing to start from."
        )
    note = f"warm start: {len(taken)} of {num_ours} arrays from {workdir}, the others fresh"
    return state.replace(params=params), note
