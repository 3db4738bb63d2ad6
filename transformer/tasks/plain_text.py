"""Shared base of the tasks that learn from one text: causal and masked language models."""

from typing import Any, ClassVar

from etils.epath import PathLike

from transformer.checkpoint.restore import restore
from transformer.config import Config
from transformer.data.files.text import Text
from transformer.data.files.texts import load_text_lines
from transformer.data.tokenizers.files import Tokenizer
from transformer.evaluation.loss import evaluate_loss
from transformer.evaluation.scores import TaskScores
from transformer.parallel.mapping import Parallel
from transformer.tasks.task import Task
from transformer.workdir import WorkDir


class PlainTextTask(Task):
    """Reads the three splits of a text and makes or loads the run's tokenizer.

    A subclass says which model and batches are made of them, and what to call a target.
    """

    config_name: ClassVar[str]  # as in `config.task`
    target_unit: ClassVar[str]  # one target, in a report
    # (Config, tokenizer, lines) -> batches that hold every target once, `num_parts` times smaller
    # than those of training
    make_batches: Any

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        data = config.data
        # The test split too: that it is missing must be said before the training, not after.
        splits = dict.fromkeys((data.train_split, data.validation_split, data.test_split))
        texts = {split: self.load_split(config, split) for split in splits}
        for text in texts.values():
            self.num_skipped.update(text.repairs)
        training_lines = texts[data.train_split].lines
        self.tokenizer = self._load_or_train_tokenizer(training_lines)
        self.tokenizers = (self.tokenizer,)
        self.model = self._make_model()
        self.training_batches = self.make_training_batches(config, self.tokenizer, training_lines)
        lines, num_parts = texts[data.validation_split].lines, config.training.accumulate_steps
        self.validation_batches = self.make_batches(
            config, self.tokenizer, lines, num_parts=num_parts
        )

    @classmethod
    def make_training_batches(cls, config: Config, tokenizer: Tokenizer, lines: Any) -> Any:
        """Returns the batches to train on, if they are not as those of evaluation."""
        return cls.make_batches(config, tokenizer, lines)

    @staticmethod
    def load_split(config: Config, split: str) -> Text:
        """Returns the lines of a split that the task uses."""
        return load_text_lines(config.data, split)

    @classmethod
    def score_split(
        cls, path: PathLike, checkpoint: str, split: str, *, corpus: str = "", **options: Any
    ) -> TaskScores:
        run = restore(path, checkpoint, tasks=[cls.config_name], **options)
        config, tokenizer = run.config, run.tokenizers[0]
        config.data.corpus = corpus or config.data.corpus
        batches = cls.make_batches(config, tokenizer, cls.load_split(config, split).lines)
        return evaluate_loss(run, batches, f"{config.data.corpus} {split}", cls.target_unit)
