"""A language model and the batches of a test text: nats and perplexity of what it guesses."""

from functools import partial

import jax

from transformer.evaluate.metrics import mean_loss
from transformer.evaluate.outcome import Outcome
from transformer.train.steps import make_eval_step, make_loss_fn, sums_over


def score_loss(model, restored, batches, corpus, unit):
    """An `Outcome` of the parameters that were `restoring.restore`d; unit: of what a target is.

    The loss is the mean negative log-likelihood of a target in nats, without dropout or smoothing.
    """
    step = jax.jit(make_eval_step(make_loss_fn(model, 0.0)))
    sums = sums_over(batches, partial(step, jax.device_put(restored.params)))
    loss, perplexity = mean_loss(sums["nll"], int(sums["tokens"]), unit)
    return Outcome(restored.checkpoint, corpus, {"loss": loss, "perplexity": perplexity})
