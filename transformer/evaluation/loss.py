"""Evaluates a language model: the loss and perplexity of a test text, without generating any."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from transformer.checkpoint.restore import Run
from transformer.checkpoint.train_state import Params
from transformer.console import counted
from transformer.evaluation.scores import Score, TaskScores
from transformer.model.loss import LossFn, Sums, make_loss_fn, perplexity
from transformer.search.programs import one_behind


def evaluate_loss(run: Run, batches: Any, corpus: str, unit: str) -> TaskScores:
    """Returns the mean loss and the perplexity of `batches`, without dropout or smoothing.

    batches: as those of `sum_over_batches`. corpus: the name of the test set. unit: what one target
    is called: "piece" or "masked token".
    """
    step = jax.jit(make_eval_step(make_loss_fn(run.model, 0.0)))
    sums = sum_over_batches(batches, partial(step, jax.device_put(run.params)))
    nll, number = sums["nll"], int(sums["tokens"])
    score = partial(Score, signature="smooth:no|dropout:no", num_sentences=number, unit=f"{unit}s")
    loss = score(f"nats per {unit}", nll / number, direction="natural logarithm")
    result = score("perplexity", perplexity(nll, number), direction=f"per {unit}")
    scores = {"loss": loss, "perplexity": result}
    return TaskScores(checkpoint=run.checkpoint, corpus=corpus, scores=scores)


def make_eval_step(
    loss_fn: LossFn, over_replicas: Callable[[Any], Any] = lambda compute: compute
) -> Callable[[Params, Any], Sums]:
    """Returns eval_step(params, batch) -> sums of `loss_fn`, without dropout.

    over_replicas: that of `Parallel`, where several devices share the rows of a batch.
    """

    def compute(trained: None, params: Params, batch: Any, rng: None) -> tuple[None, Sums]:
        return None, loss_fn(params, batch, None)[1]

    def eval_step(params: Params, batch: Any) -> Sums:
        return over_replicas(compute)(None, params, batch, None)[1]

    return eval_step


def sum_over_batches(batches: Any, evaluate: Callable[[Any], Sums]) -> dict[str, float]:
    """Returns the sums of `evaluate(batch)` over the first `batches_per_epoch` of the batches.

    These hold every example once.
    """
    sums: dict[str, float] = {}
    num_batches = batches.batches_per_epoch
    indices = counted(range(num_batches), "computing the losses of the batches", num_batches)
    results = (evaluate(batches[index]) for index in indices)
    # On CPUs two programs that wait for all devices can wait for each other.
    if jax.default_backend() != "cpu":
        results = one_behind(results)
    for batch_sums in results:
        for name, value in jax.device_get(batch_sums).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
