"""Evaluates a language model: the loss and perplexity of a test text, without generating any."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import jax

from transformer.checkpoint.restore import Run
from transformer.checkpoint.train_state import Params
from transformer.console import counted
from transformer.evaluation.scores import mean_loss
from transformer.evaluation.task_scores import SimpleScores
from transformer.model.loss import LossFn, Sums, make_loss_fn
from transformer.search.programs import one_behind


class EvaluationBatches(Protocol):
    """Batches of which the first `batches_per_epoch` hold every example once."""

    @property
    def batches_per_epoch(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def evaluate_loss(
    restored: Run, batches: EvaluationBatches, corpus: str, unit: str
) -> SimpleScores:
    """Returns the loss of a restored model on `batches`, without dropout or smoothing.

    corpus: the name of the test set. unit: what one target is called: "piece" or "masked token".
    """
    step = jax.jit(make_eval_step(make_loss_fn(restored.model, 0.0)))
    sums = sum_over_batches(batches, partial(step, jax.device_put(restored.params)))
    loss, perplexity = mean_loss(sums["nll"], int(sums["tokens"]), unit)
    return SimpleScores(
        checkpoint=restored.checkpoint,
        corpus=corpus,
        scores={"loss": loss, "perplexity": perplexity},
    )


def make_eval_step(loss_fn: LossFn, axis_name: str | None = None) -> Callable[[Params, Any], Sums]:
    """Returns eval_step(params, batch) -> sums of `loss_fn`, without dropout.

    axis_name: the mapped axis of devices over which the sums are added up, if there is one.
    """

    def eval_step(params: Params, batch: Any) -> Sums:
        sums = loss_fn(params, batch, None)[1]
        return jax.lax.psum(sums, axis_name) if axis_name else sums

    return eval_step


def sum_over_batches(
    batches: EvaluationBatches, evaluate: Callable[[Any], Sums]
) -> dict[str, float]:
    """Returns the sums of `evaluate(batch)` over the first `batches_per_epoch` batches."""
    sums: dict[str, float] = {}
    num_batches = batches.batches_per_epoch
    indices = counted(range(num_batches), "computing the losses of the batches", num_batches)
    results = (evaluate(batches[index]) for index in indices)
    # On CPUs two programs that wait for all devices can wait for each other.
    if jax.default_backend() != "cpu":
        results = one_behind(results)
    for of_batch in results:
        for name, value in jax.device_get(of_batch).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return sums
