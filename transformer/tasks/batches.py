"""What a task's batches must offer to the training loop."""

from typing import Any, Protocol, TypeVar


class Batches(Protocol):
    """`batches[step]` is a batch: a NamedTuple of NumPy arrays [B, …].

    Rows of zeros must count for nothing: they are added until the devices share a batch evenly.
    """

    @property
    def rows_per_batch(self) -> int:
        """B."""
        ...

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches that hold every example once."""
        ...

    def __getitem__(self, step: int) -> Any: ...


class TrainingBatches(Batches, Protocol):
    """Batches for every step from 0 on; each depends on the seed and the step alone."""

    def plan_ahead(self, step: int) -> None:
        """Prepares in the background what the steps after this one will need."""
        ...


TrainingT = TypeVar("TrainingT", bound=TrainingBatches)
ValidationT = TypeVar("ValidationT", bound=Batches)
