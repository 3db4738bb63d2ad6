"""The training step of a configuration whose data are not at hand, to be compiled and not run."""

from transformer.config import Config
from transformer.parallel.mapping import Parallel
from transformer.registry import TASKS
from transformer.training.steps import TrainStep


def make_step_without_data(config: Config, parallel: Parallel) -> TrainStep:
    """Makes the TrainStep from shapes alone; vocabularies are as large as `tokenizer.vocab_size`.

    Raises ValueError for a task whose shapes depend on its data.
    """
    if config.automatic_settings():
        raise ValueError(
            f"What is chosen depends on the text, which --topology does not read: set "
            f"{', '.join(config.automatic_settings())}, or leave out --topology."
        )
    task = TASKS[config.task]
    model, batch = task.model_and_blank_batch(config)
    loss_fn = task.make_loss_fn(model, config.training.label_smoothing)
    return TrainStep(config, parallel, model, loss_fn, batch)
