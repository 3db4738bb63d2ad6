"""The tasks that can be learnt: each defines its batches, loss, metrics and samples."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.tasks.task import Task

TASKS = {
    "translation": "TranslationTask",
    "classification": "ClassificationTask",
    "language_model": "LanguageModelTask",
    "masked_lm": "MaskedLMTask",
    "images": "ImageTask",
}


def load_task_class(name: str) -> "type[Task]":
    """Imports the module of a task, which has its name, and returns its class."""
    return getattr(import_module(f"transformer.tasks.{name}"), TASKS[name])
