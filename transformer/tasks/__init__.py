"""What can be learnt: each task says what a batch, a loss, a metric and a sample are."""

from importlib import import_module

TASKS = {
    "translation": "TranslationTask",
    "classification": "ClassificationTask",
    "language_model": "LanguageModelTask",
    "masked_lm": "MaskedLMTask",
    "images": "ImageTask",
}


def load_task_class(name):
    """The class of a task, in the room of its name."""
    return getattr(import_module(f"transformer.tasks.{name}"), TASKS[name])
