"""The tasks that can be learnt: each defines its batches, loss, metrics and samples."""

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
