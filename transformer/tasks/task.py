"""What the loop of a run asks of its task."""

import zlib
from collections import Counter
from functools import partial

import numpy as np

from transformer.data.tokenizer_files import load_tokenizers, train_tokenizer
from transformer.evaluate.loss import make_eval_step, sum_over_batches
from transformer.model.loss import make_loss_fn, perplexity


class Task:
    """A subclass reads its data, and then calls `_set_up` with its model and batches.

    training_batches: `[step]` is a batch, a tuple of arrays that lead with the row; besides
    `rows_per_batch`, `batches_per_epoch` and `plan_ahead(step)`. notes: what was left out of the
    training data, by reason. selection_key: the metric that says which checkpoint is the best.
    """

    selection_key, higher_is_better = "validation_loss", False

    def __init__(self, config, parallel):
        self.config, self.parallel, self.notes = config, parallel, Counter()

    def _set_up(self, model, training_batches, validation_batches, label_smoothing=0.0):
        self.model = model
        self.training_batches, self.validation_batches = training_batches, validation_batches
        self.loss_fn = make_loss_fn(model, label_smoothing)
        self._eval_step = self.parallel.map_step(partial(make_eval_step, self.loss_fn))

    def _one_tokenizer(self, workdir, texts):
        """The tokenizer of the run in `workdir`; learnt from texts, if none has begun there."""
        if workdir.has_run:
            return load_tokenizers(workdir.path)[0]
        return train_tokenizer(self.config.tokenizer, texts)

    # ---- for each task to say

    @staticmethod
    def model_and_blank_batch(config):
        """(model, batch of zeros): the shapes of a run whose data are not at hand."""
        raise ValueError(
            f"What a step of {config.task} costs depends on its data: leave out --topology."
        )

    def summary_lines(self):
        """Lines of the start-up card: what was read, what was left out, how it is packed."""
        raise NotImplementedError

    @property
    def cost_per_step(self):
        """(FLOPs, targets) of a training step, in the mean of an epoch."""
        raise NotImplementedError

    def data_contents(self):
        """What was read, as arrays and anything with a repr, to be compared between hosts."""
        raise NotImplementedError

    def save(self, folder):
        """Writes what restoring needs besides the configuration and a checkpoint."""
        raise NotImplementedError

    def evaluate(self, params):
        """(metrics of the validation split, samples of its outputs as texts for a reader)."""
        return self.evaluate_loss(params), []

    def score_test_split(self, workdir):
        """Scores the run's default checkpoint on the test split."""
        return self.score_split(workdir.path, "default", self.config.data.test_split)

    @staticmethod
    def score_split(path, checkpoint, split, **settings):
        """What a checkpoint of the run at `path` reaches on a split: a `TaskScores`.

        settings: dtype and batch_size, as `restoring.restore` takes them.
        """
        raise NotImplementedError

    @staticmethod
    def predict_lines(path, checkpoint, lines, options, **settings):
        """Yields a line of output for each line of input. options: of `sampling`, and `jsonl`."""
        raise ValueError("A run of this task says nothing to a line of text: leave out --input.")

    def next_commands(self, workdir):
        """(an input for eval.py, a line of Python) to show what can be done with the run."""
        raise NotImplementedError

    # ---- what all share

    def selection_score(self, metrics):
        """A number that is higher for a better model."""
        return metrics[self.selection_key] * (1 if self.higher_is_better else -1)

    def format_metrics(self, metrics):
        """The metrics of an evaluation on one line."""
        names = (name.removeprefix("validation_") for name in metrics)
        return "  ".join(
            f"{name} {value:.4g}" for name, value in zip(names, metrics.values(), strict=True)
        )

    def data_fingerprint(self):
        """Bytes that are alike on every host that reads the same data in the same way."""
        data_contents = [
            zlib.crc32(np.ascontiguousarray(item)) if isinstance(item, np.ndarray) else item
            for item in self.data_contents()
        ]
        return repr(data_contents).encode()

    @property
    def num_padding_rows(self):
        """Empty rows of a training batch, as the devices need them."""
        rows = self.training_batches.rows_per_batch
        return self.parallel.padded_num_rows(rows, self.config.training.accumulate_steps) - rows

    def batch_summary(self, places, note=""):
        """The line of the card that says what a batch is."""
        batches, padding = self.training_batches, self.num_padding_rows
        padding = f", and {padding} empty ones to deal them out evenly" if padding else ""
        return (
            f"batch       {batches.rows_per_batch} rows of {places}{note}{padding}; "
            f"{batches.batches_per_epoch:,} batches an epoch"
        )

    def skipped_text(self):
        """What `notes` counts, in words."""
        return ", ".join(f"{count:,} of {reason}" for reason, count in self.notes.items()) or "none"

    def evaluate_loss(self, params):
        """Of every validation target, each once, in nats."""
        sums = sum_over_batches(
            self.validation_batches,
            lambda batch: self._eval_step(params, self.parallel.put_batch(batch)),
        )
        return {
            "validation_loss": sums["loss"] / sums["tokens"],
            "validation_perplexity": perplexity(sums["nll"], sums["tokens"]),
        }
