"""Sums up the metrics of training steps and turns them into means and speeds."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import jax

from transformer.model.costs import StepCost
from transformer.parallel.devices import peak_flops

MAX_SKIPPED = 3  # skipped updates in a row after which a run is given up as diverged
MAX_IN_FLIGHT = 2  # steps queued on the device: it is never idle, and the loop is never far ahead


class Meter:
    """Accumulates the sums of the steps since the last `read`.

    The sums of a step are fetched some steps later, so that the loop never waits for the device.

    cost: of a step; without it, or for devices of unknown peak, no utilisation is given. trained:
    the totals of an earlier start, from which `trained` counts on. clock: seconds, from any start.
    """

    def __init__(
        self,
        cost: StepCost | None = None,
        trained: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        peak = peak_flops(jax.devices())
        is_known = cost and peak
        self._utilisation_per_target = cost.flops / cost.num_targets / peak if is_known else 0.0
        self._clock, self._before = clock, Counter(trained or {})
        self._begun, self._num_targets = clock(), 0.0
        self._pending: deque[tuple[int, Mapping[str, jax.typing.ArrayLike]]] = deque()
        self.skipped_steps: list[int] = []  # whose update was skipped, and not yet warned of
        self.num_skipped_in_a_row = 0
        self.num_hosts_stopping = 0.0  # hosts that had been told to stop, by the last settled step
        self._restart()

    def _restart(self) -> None:
        self._sums: Counter[str] = Counter()
        self._start, self._seconds_waited = self._clock(), 0.0

    def add(self, step: int, sums: Mapping[str, jax.typing.ArrayLike]) -> None:
        """Takes the sums of a step, which the device may still be computing."""
        self._pending.append((step, sums))
        self.settle(MAX_IN_FLIGHT)

    def settle(self, max_pending: int = 0) -> None:
        """Waits until at most `max_pending` steps are unfinished, and adds up the other ones."""
        while len(self._pending) > max_pending:
            step, sums = self._pending.popleft()
            values = {name: float(value) for name, value in jax.device_get(sums).items()}
            self.num_hosts_stopping = values.pop("stopping", 0.0)
            if values["skipped"]:
                self.skipped_steps.append(step)
            self.num_skipped_in_a_row = self.num_skipped_in_a_row + 1 if values["skipped"] else 0
            self._sums.update(values, steps=1)
            self._num_targets += values["tokens"]

    @property
    def has_diverged(self) -> bool:
        """Whether the last `MAX_SKIPPED` updates were all skipped."""
        return self.num_skipped_in_a_row >= MAX_SKIPPED

    def read(self) -> dict[str, float]:
        """Returns the metrics of the steps since the last call, and forgets them.

        The mean loss is in nats per target token, and nan if every update was skipped. The
        perplexity is left out for a task whose loss has no "nll". input_wait is the share of time
        spent waiting for data; device_memory_gib the most that this host's first device has held.
        """
        self.settle()
        metrics = self.peek()
        self._restart()
        return metrics

    def peek(self) -> dict[str, float]:
        """Returns what `read` would, of the steps that are finished, and forgets nothing."""
        sums, seconds = self._sums, self._clock() - self._start
        num_tokens, speed = sums["tokens"] or math.nan, sums["tokens"] / seconds
        num_updates = sums["steps"] - sums["skipped"]
        metrics = {"loss": sums["loss"] / num_tokens}
        if "nll" in sums:
            mean = min(sums["nll"] / num_tokens, 700)  # of more, it exceeds a float
            metrics["perplexity"] = math.exp(mean)
        metrics["gradient_norm"] = sums["gradient_norm"] / max(1, num_updates)
        metrics["tokens_per_second"] = speed
        metrics["input_wait"] = self._seconds_waited / seconds
        metrics["skipped"] = sums["skipped"]
        if self._utilisation_per_target:
            metrics["utilisation"] = self._utilisation_per_target * speed
        if memory := (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use"):
            metrics["device_memory_gib"] = memory / 2**30
        return metrics

    def trained(self) -> dict[str, float]:
        """Returns how much training there has been, over all starts, up to the last settled step.

        seconds: with evaluations, without start-up. device_hours: these, for each device.
        target_tokens: that the losses were computed of.
        """
        seconds = self._clock() - self._begun
        hours = seconds * jax.device_count() / 3600
        return {
            "seconds": round(self._before["seconds"] + seconds, 3),
            "device_hours": round(self._before["device_hours"] + hours, 6),
            "target_tokens": int(self._before["target_tokens"] + self._num_targets),
        }

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts the time inside as time in which the devices wait for data."""
        start = self._clock()
        yield
        self._seconds_waited += self._clock() - start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the time inside out of the speed: it is not training."""
        self.settle()
        start = self._clock()
        yield
        self._start += self._clock() - start
