"""A language model and the batches of a test text: nats and perplexity of what it guesses."""

from collections import Counter

import jax

from transformer.evaluation.outcome import Outcome
from transformer.metrics import mean_loss
from transformer.training import make_eval_step, make_loss_fn


def score_loss(model, restored, batches, corpus, unit):
    """An `Outcome` of the parameters that were `restoring.restore`d; unit: of what a target is.

    The loss is the mean negative log-likelihood of a target in nats, without dropout or smoothing.
    """
    step = jax.jit(make_eval_step(make_loss_fn(model, 0.0)))
    params, sums = jax.device_put(restored.params), Counter()
    for index in range(batches.batches_per_epoch):
        found = jax.device_get(step(params, batches[index]))
        sums.update({name: float(value) for name, value in found.items()})
    loss, perplexity = mean_loss(sums["nll"], int(sums["tokens"]), unit)
    return Outcome(restored.checkpoint, corpus, {"loss": loss, "perplexity": perplexity})
