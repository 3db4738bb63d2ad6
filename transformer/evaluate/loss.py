"""A language model and the batches of a test text: nats and perplexity of what it guesses."""

from collections import Counter
from functools import partial

import jax

from transformer.evaluate.metrics import mean_loss
from transformer.evaluate.task_scores import TaskScores
from transformer.model.loss import make_loss_fn


def evaluate_loss(model, restored, batches, corpus, unit):
    """A `TaskScores` of the parameters that were `restoring.restore`d; unit: of what a target is.

    The loss is the mean negative log-likelihood of a target in nats, without dropout or smoothing.
    """
    step = jax.jit(make_eval_step(make_loss_fn(model, 0.0)))
    sums = sum_over_batches(batches, partial(step, jax.device_put(restored.params)))
    loss, perplexity = mean_loss(sums["nll"], int(sums["tokens"]), unit)
    return TaskScores(restored.checkpoint, corpus, {"loss": loss, "perplexity": perplexity})


def make_eval_step(loss_fn, axis_name=None):
    """eval_step(params, batch) -> sums, without dropout; axis_name as for `make_train_step`."""

    def eval_step(params, batch):
        sums = loss_fn(params, batch, None)[1]
        return jax.lax.psum(sums, axis_name) if axis_name else sums

    return eval_step


def sum_over_batches(batches, evaluate):
    """What evaluate(batch) sums, over the first `batches_per_epoch` of batches: {name: float}."""
    sums = Counter()
    for index in range(batches.batches_per_epoch):
        found = jax.device_get(evaluate(batches[index]))
        sums.update({name: float(value) for name, value in found.items()})
    return sums
