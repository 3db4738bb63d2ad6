"""The task of classifying images, whose patches are the tokens."""

import json

import numpy as np

from transformer.data.images import ImageBatches, load_images, to_patches
from transformer.data.labels import Labels
from transformer.inference.classifier import Classifier
from transformer.model.costs import stack_flops
from transformer.tasks.labelled import LabelledTask


class ImageTask(LabelledTask):
    """`training.batch_tokens` counts patches."""

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel)
        data, settings = config.data, config.training
        images, labels = load_images(data, data.train_split)
        if workdir.has_run:
            self.labels = Labels.load(workdir.path)
        else:
            self.labels = Labels.from_labels(labels, images.shape[1:])
        self.validation = load_images(data, data.validation_split)
        self.labels.encode(load_images(data, data.test_split)[1])  # refuses what is not known
        self.num_patches = to_patches(images[:1], data.patch_size).shape[1]
        places = config.model.max_positions
        if config.model.positions == "learned" and self.num_patches > places:
            raise ValueError(
                f"model.max_positions ({places}) must be at least {self.num_patches}, the patches "
                f"of an image; raise it or data.patch_size."
            )
        rows = max(1, settings.batch_tokens // self.num_patches)
        self.classifier = Classifier(config, None, self.labels)
        self._set_up_classifier(
            self._batches(images, labels, rows),
            self._batches(*self.validation, rows),
        )

    def _batches(self, images, labels, rows):
        patches = to_patches(images, self.config.data.patch_size)
        seed = self.config.training.seed
        return ImageBatches(patches, self.labels.encode(labels), rows_per_batch=rows, seed=seed)

    @staticmethod
    def load_split(data, split, classes):
        return load_images(data, split)

    def data_contents(self):
        batches = self.training_batches
        return [batches.patches, batches.targets, *map(np.asarray, self.validation)]

    def save(self, folder):
        self.labels.save(folder)

    @property
    def cost_per_step(self):
        batches, model = self.training_batches, self.config.model
        pixels = batches.patches.shape[1] * batches.patches.shape[2]
        outputs = model.d_model * (pixels + len(self.labels.names)) * batches.rows_per_batch
        lengths = np.full(batches.rows_per_batch, self.num_patches)
        return stack_flops(model, lengths, outputs=outputs), batches.rows_per_batch

    def next_commands(self, workdir):
        return "", (
            f"import numpy as np; from transformer import Classifier; "
            f"print(Classifier.from_checkpoint({json.dumps(workdir)})"
            f".classify(np.zeros({[1, *self.labels.image_shape]}))[0])"
        )

    def summary_lines(self):
        batches, shape = self.training_batches, " × ".join(map(str, self.labels.image_shape))
        return [
            f"data        {self.config.data.corpus}: {len(batches.targets):,} training images of "
            f"{shape}, {len(self.labels.names)} classes",
            self.batch_summary(f"{self.num_patches} patches"),
            f"validation  {len(self.validation[1]):,} images",
        ]
