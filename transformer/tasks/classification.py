"""The task of classification: sentences and their labels."""

import json
from collections import Counter
from functools import cached_property
from itertools import islice

import numpy as np

from transformer.data.labelled_text import load_evaluation_examples, load_training_examples
from transformer.data.labels import Labels
from transformer.data.packing import PackedBatches, filter_by_length, num_rows_of_batch
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import save_tokenizers
from transformer.inference.classifier import Classifier
from transformer.model.costs import stack_flops
from transformer.tasks.labelled import LabelledTask

AT_ONCE = 4096  # lines that are sorted by length together


class ClassificationTask(LabelledTask):
    """A sentence is a source, and its target one id: the number of its class.

    So sentences are packed into rows by the packing of translation; a row has as many places for
    classes as it holds sentences of mean length.
    """

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel)
        data, settings = config.data, config.training
        texts, labels, problems = load_training_examples(data)
        self.notes.update(problems)
        if workdir.has_run:
            self.labels = Labels.load(workdir.path)
        else:
            self.labels = Labels.from_labels(labels)
        self.tokenizer = self._one_tokenizer(workdir, texts)
        names = self.labels.names
        self.validation = load_evaluation_examples(data, data.validation_split, names)
        self.test_examples = load_evaluation_examples(data, data.test_split, names)
        self.not_in_loss = Counter()  # validation sentences that are too long for a row
        rows = num_rows_of_batch(settings.batch_tokens, data.row_length)
        self.classifier = Classifier(config, None, self.labels, self.tokenizer)
        self._set_up_classifier(
            self._pack(texts, labels, rows, self.notes),
            self._pack(*self.validation, -(-rows // settings.accumulate_steps), self.not_in_loss),
        )

    def _pack(self, texts, labels, rows_per_batch, notes):
        """Batches of the sentences that fit a row; the others are counted in `notes`."""
        length = self.config.data.row_length
        source = Ragged.encode(self.tokenizer, texts)
        numbers = self.labels.encode(labels)
        target = Ragged(numbers, np.arange(len(numbers)), np.ones(len(numbers), np.int64))
        fits, skipped = filter_by_length(source, target, length, max_length_ratio=0)
        notes.update(skipped)
        if not len(fits):
            raise ValueError(
                f"No sentence has at most data.row_length ({length}) pieces; raise it."
            )
        source = source.take(fits)
        return PackedBatches(
            source,
            target.take(fits),
            row_length=max(1, round(length / source.lengths.mean())),
            source_length=length,
            rows_per_batch=rows_per_batch,
            seed=self.config.training.seed,
        )

    load_split = staticmethod(load_evaluation_examples)

    @staticmethod
    def predict_lines(path, checkpoint, lines, options, **settings):
        classifier = Classifier.from_checkpoint(path, checkpoint, **settings)
        while part := list(islice(lines, AT_ONCE)):
            for text, found in zip(part, classifier.classify(part), strict=True):
                row = {"text": text, "label": found.label, "probabilities": found.probabilities}
                yield json.dumps(row, ensure_ascii=False) if options.get("jsonl") else found.label

    def data_contents(self):
        batches = self.training_batches, self.validation_batches
        sides = [side for b in batches for side in (b.source, b.target)]
        return [x for s in sides for x in (s.flat, s.starts)] + [
            self.validation,
            self.test_examples,
        ]

    def save(self, folder):
        save_tokenizers(folder, self.tokenizer, self.tokenizer)
        self.labels.save(folder)

    @cached_property
    def cost_per_step(self):
        source, model = self.training_batches.source, self.config.model
        outputs = len(source) * model.d_model * len(self.labels.names)
        steps = self.training_batches.batches_per_epoch
        return stack_flops(model, source.lengths, outputs=outputs) / steps, len(source) / steps

    def next_commands(self, workdir):
        sentence = self.test_examples[0][0]
        folder, text = (json.dumps(t, ensure_ascii=False) for t in (workdir, sentence))
        return sentence, (
            f"from transformer import Classifier; "
            f"print(Classifier.from_checkpoint({folder}).classify([{text}])[0])"
        )

    def summary_lines(self):
        batches = self.training_batches
        length, places = batches.shape
        fill = (batches[0].input_segments != 0).mean()
        lines = [
            f"data        {self.config.data.corpus}: {len(batches.source):,} training sentences of "
            f"{len(self.labels.names)} classes; left out: {self.skipped_text()}",
            f"vocabulary  {self.tokenizer.vocab_size:,} pieces",
            self.batch_summary(f"{length} places, {fill:.1%} of them real", f", {places} classes"),
            f"validation  {len(self.validation[0]):,} sentences",
        ]
        for reason, count in self.not_in_loss.items():
            lines.append(
                f"            {count:,} of {reason}: cut for the accuracy, not in the loss"
            )
        return lines
