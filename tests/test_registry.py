"""Names of a user's own: what may be registered, and what a configuration then accepts."""

import pytest

import transformer
from transformer.config import Config
from transformer.registry import METRICS, OWN_TASK, REGISTRIES, MetricEntry, task_kind
from transformer.tasks.task import Task
from transformer.tasks.translation import TranslationTask


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_what_is_built_in_exists(registry):
    """Catches a name that validates and then fails in the middle of making the model."""
    assert [name for name in registry if registry[name] is None] == []
    assert len(registry) == len(list(registry)) > 0


def test_a_registered_name_is_a_choice_of_the_configuration():
    """Catches a name that is registered and still refused, or refused without the way out."""
    changes = {"model.attention": "cosine"}
    with pytest.raises(ValueError, match=r"not 'cosine': one of your own is .*--register"):
        Config().with_values(changes)

    @transformer.register_attention("cosine")
    def cosine(query, key, value, *, mask=None, dropout=None):
        return value

    assert callable(cosine) and Config().with_values(changes).validate()


@pytest.mark.parametrize(
    "function",
    [
        lambda query, key, value, *, mask=None: value,
        lambda q, k, v, *, mask, dropout: v,
        type("WithoutDropout", (), {"__call__": lambda self, query, key, value, mask=None: value}),
    ],
    ids=["without dropout", "dropout has no default", "class"],
)
def test_an_attention_function_takes_what_it_is_called_with(function):
    """Catches a stack trace of JAX about an argument, in the middle of making the model."""
    with pytest.raises(ValueError, match=r"'own' must take \(query, key, value, .*, not \(.*\.$"):
        transformer.register_attention("own")(function)
    assert "own" not in transformer.registry.ATTENTION_FUNCTIONS


def test_a_taken_name_is_refused_but_a_cell_may_run_again():
    """Catches a built-in function that is replaced in silence."""

    def define(value):
        def function(*arrays, **options):
            return value

        return function

    transformer.register_attention("own", define(1))
    transformer.register_attention("own", define(2))  # the same definition, edited
    for name in ("own", "fused"):
        with pytest.raises(ValueError, match=f"attention function '{name}' exists already"):
            transformer.register_attention(name, lambda *arrays, **options: 3)
    with pytest.raises(ValueError, match="must be a text, not None"):
        transformer.register_task(None, object)
    with pytest.raises(ValueError, match="There is no metric 'own' but bleu, line_error_rate"):
        METRICS["own"]


def test_a_metric_keeps_its_label_and_its_direction():
    """Catches a checkpoint that is called the best for the most errors."""

    @transformer.register_metric("own", label="errors", higher_is_better=False)
    def count_errors(translation, reference):
        return float(translation != reference)

    assert METRICS["own"] == MetricEntry(count_errors, "errors", False)


def test_a_task_that_extends_another_is_of_its_kind():
    """Catches a Translator that refuses a run of translation with another loss."""
    transformer.register_task("twice", type("Twice", (TranslationTask,), {}))
    transformer.register_task("other", type("Other", (Task,), {}))
    kinds = [task_kind(name) for name in ("twice", "other", "images")]
    assert kinds == ["translation", OWN_TASK, "images"]
