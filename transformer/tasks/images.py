"""The task of classifying images, whose patches are the tokens."""

from collections.abc import Sequence

import numpy as np

from transformer.config import Config
from transformer.console import quantity
from transformer.data.rows.images import ImageBatches, load_images, to_patches
from transformer.model.costs import StepCost, stack_flops
from transformer.parallel.mapping import Parallel
from transformer.tasks.classification import LabelledTask
from transformer.workdir import WorkDir


class ImageTask(LabelledTask):
    """Classifies images cut into patches; `training.batch_tokens` counts patches."""

    training_batches: ImageBatches
    load_split = staticmethod(lambda data, split, classes: load_images(data, split))

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        data = config.data
        images, labels = load_images(data, data.train_split)
        self.labels = self._load_or_make_labels(labels, images.shape[1:])
        names = data.validation_split, data.test_split
        splits = {name: load_images(data, name) for name in names}
        self.validation = splits[data.validation_split]
        for split, (others, classes) in splits.items():
            self.labels.encode(classes)  # refuses unknown ones
            if others.shape[1:] != images.shape[1:]:
                raise ValueError(
                    f"The images of the split '{split}' are {others.shape[1:]}, and those that are "
                    f"trained on {images.shape[1:]} (height, width, channels): make them equal."
                )
        self.num_patches = to_patches(images[:1], data.patch_size).shape[1]
        num_positions = self.num_patches + (config.model.pooling != "mean")  # a class token
        max_positions = config.model.max_positions
        if config.model.positions == "learned" and num_positions > max_positions:
            raise ValueError(
                f"model.max_positions ({max_positions}) must be at least {num_positions}, the "
                f"positions of an image; raise it or data.patch_size."
            )
        self.model = self._make_model()
        self.training_batches = self._make_batches(images, labels, is_training=True)
        self.validation_batches = self._make_batches(*self.validation, is_training=False)

    def _make_batches(
        self, images: np.ndarray, labels: Sequence[str], *, is_training: bool
    ) -> ImageBatches:
        data, training, targets = self.config.data, self.config.training, self.labels.encode(labels)
        num_rows = max(1, training.batch_tokens // self.num_patches)
        return ImageBatches(
            images,
            targets,
            patch_size=data.patch_size,
            rows_per_batch=num_rows,
            seed=training.seed,
            flip=is_training and data.flip_images,
            crop_padding=data.crop_padding if is_training else 0,
        )

    def training_contents(self) -> list[np.ndarray]:
        batches = self.training_batches
        return [to_patches(batches.images, batches.patch_size), batches.targets]

    @property
    def cost_per_step(self) -> StepCost:
        batches, model = self.training_batches, self.config.model
        num_rows = batches.rows_per_batch
        outputs = model.d_model * (batches.images[0].size + len(self.labels.names)) * num_rows
        lengths = np.full(num_rows, self.num_patches)
        return StepCost(stack_flops(model, lengths, outputs=outputs), num_rows)

    def summary_lines(self) -> list[str]:
        shape = " × ".join(map(str, self.labels.image_shape))
        return self._lines(
            f": {len(self.training_batches.targets):,} training images of {shape}, "
            f"{len(self.labels.names)} classes",
            f"{self.num_patches} patches",
            quantity(len(self.validation[1]), "image"),
        )
