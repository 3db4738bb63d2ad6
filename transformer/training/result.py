"""What a training from Python returns."""

from dataclasses import dataclass
from typing import Any

from etils import epath

from transformer.signals import DONE
from transformer.workdir import WorkDir


@dataclass(frozen=True)
class TrainingResult:
    """What training left in a work directory.

    step: that of the newest checkpoint; 0 if it was stopped before training began, or began again.
    scores: those of the test split by name, as "bleu"; empty unless the run came to its end.
    exit_code: what the train command returns, a constant of `transformer.signals`.
    """

    workdir: epath.Path
    step: int
    exit_code: int
    scores: dict[str, float]

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end and was not stopped before."""
        return self.exit_code == DONE

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the records of metrics.jsonl: the training reports and the validations."""
        return WorkDir(self.workdir).read_metrics()

    def __repr__(self) -> str:
        """As "TrainingResult(runs/x, finished at step 600: bleu 98.12, chrf 99.01)"."""
        ended = "finished" if self.is_finished else f"stopped with exit code {self.exit_code}"
        scores = ", ".join(f"{name} {value:.2f}" for name, value in self.scores.items())
        facts = f"{self.workdir}, {ended} at step {self.step:,}"
        return f"TrainingResult({facts}: {scores})" if scores else f"TrainingResult({facts})"


def test_scores(record: dict[str, float]) -> dict[str, float]:
    """Returns the scores of the test split in the last record of metrics.jsonl, by name."""
    return {
        name.removeprefix("test_"): value
        for name, value in record.items()
        if name.startswith("test_")
    }
