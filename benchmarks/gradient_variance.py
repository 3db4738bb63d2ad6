"""How noisy the gradients of hard attention are: the estimators of one run, on one batch.

python benchmarks/gradient_variance.py --workdir=runs/hard

The run is one with model.attention=hard. Its parameters are those of every estimator, without
dropout, so that the draws are all that differs between --samples gradients of the same batch.
"noise" is the root mean square distance of a gradient from their mean, divided by the length of the
gradient of soft attention; "to soft" is the cosine between the mean and that gradient.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from table import align

import transformer
from transformer.model.loss import make_loss_fn, per_token
from transformer.parallel.mapping import make_parallel
from transformer.tasks.translation import (
    TranslationTask,
    make_translation_loss_fn,
    score_of_samples,
)
from transformer.workdir import WorkDir


def without_baseline(model: Any, label_smoothing: float) -> Callable:
    """Returns the loss function of `make_translation_loss_fn` with b = 0."""

    def loss_fn(params: Any, batch: Any, rng: jax.Array) -> tuple[jax.Array, dict]:
        apply = partial(model.apply, {"params": params}, batch, deterministic=False)
        logits, sown = apply(rngs={"dropout": rng}, mutable=["samples"])
        losses = per_token(logits, batch.targets, label_smoothing)[0] * batch.weights
        fixed = jax.lax.stop_gradient(losses)
        score = score_of_samples(sown["samples"]["decoder"], fixed, batch.target_segments)
        return losses.sum() + score, {}

    return loss_fn


def gradients(loss_fn: Callable, params: Any, batch: Any, num_samples: int) -> np.ndarray:
    """Returns gradients [num_samples, parameters], each with draws of its own."""
    gradient = jax.jit(
        lambda rng: ravel_pytree(jax.grad(loss_fn, has_aux=True)(params, batch, rng)[0])[0]
    )
    return np.stack([gradient(jax.random.PRNGKey(seed)) for seed in range(num_samples)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--workdir", required=True)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--checkpoint", default="last", help="a step, last or best")
    arguments = parser.parse_args()
    run = transformer.restore(arguments.workdir, arguments.checkpoint)
    config = run.config
    task = TranslationTask(config, make_parallel(config), WorkDir(arguments.workdir))
    batch = jax.tree.map(jnp.asarray, task.training_batches[0])
    smoothing = config.training.label_smoothing

    def model(attention: str) -> Any:
        changes = {"model.attention": attention, "model.dropout_rate": 0.0}
        return run.model.clone(config=config.with_values(changes).model)

    soft = make_loss_fn(model("scaled_dot_product"), smoothing)
    (exact,) = gradients(soft, run.params, batch, 1)
    rows = [("estimator", "noise", "to soft")]
    for name, loss_fn in {
        "score function": make_translation_loss_fn(model("hard"), smoothing),
        "without its baseline": without_baseline(model("hard"), smoothing),
        "straight-through": make_loss_fn(model("hard_gumbel"), smoothing),
    }.items():
        found = gradients(loss_fn, run.params, batch, arguments.samples)
        mean, variance = found.mean(0), found.var(0, ddof=1).sum()
        cosine = mean @ exact / np.sqrt((mean**2).sum() * (exact**2).sum())
        rows.append((name, f"{np.sqrt(variance / (exact**2).sum()):.2f}", f"{cosine:.2f}"))
    print(align(rows))


if __name__ == "__main__":
    main()
