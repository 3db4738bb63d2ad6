"""A run of any task is restored as model, parameters, configuration and tokenizers."""

from functools import partial

import jax
import numpy as np
import pytest

import transformer
from tests.helpers.notes import note_settings
from tests.helpers.random_runs import TASKS, write_run
from transformer.checkpoint.restore import restore, smallest_batch
from transformer.inference.encoders import Classifier
from transformer.inference.language_model import LanguageModel
from transformer.inference.translator import Translator


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A work directory per task."""
    folder = tmp_path_factory.mktemp("runs")
    return {task: write_run(folder / task, task) for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
def test_a_restored_model_computes(runs, task):
    """Catches a model of another task, and parameters, names or classes of another run."""
    run = transformer.restore(runs[task])
    batch = smallest_batch(run.config, run.labels)
    apply = partial(run.model.apply, deterministic=True)
    # To compute one of them is enough; the shapes of the others show names and sizes.
    evaluate = jax.jit(apply) if task == "translation" else partial(jax.eval_shape, apply)
    logits = evaluate({"params": run.params}, batch)
    has_classes = task in ("classification", "token_classification", "images")
    assert len(run.labels.names) == 3 * has_classes
    assert logits.shape == (1, 1, 3 if has_classes else run.tokenizers[1].vocab_size)
    assert task != "translation" or np.isfinite(logits).all()
    assert (run.config.task, run.checkpoint, run.step) == (task, "best (20)", 20)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(run.params))


@pytest.mark.parametrize("kind", [Translator, Classifier, LanguageModel])
def test_each_object_opens_the_runs_of_its_tasks_only(runs, kind):
    """Catches a classifier that opens a translation run and fails in its first batch."""
    for task, folder in runs.items():
        if task not in kind.tasks:
            with pytest.raises(ValueError, match=f"a run of {task}, not of {kind.tasks[0]}"):
                kind.from_checkpoint(folder)
            continue
        opened = kind.from_checkpoint(folder, "last", dtype="bfloat16", batch_size=7)
        run = opened.run
        assert (run.checkpoint, run.step, run.num_averaged) == ("last (20)", 20, 1)
        assert opened.config.decoding.batch_size == 7
        dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(opened.params) if leaf.ndim > 1}
        assert "bfloat16" in dtypes


def test_a_predictor_takes_another_checkpoint(tmp_path):
    """Catches the name of one checkpoint beside the parameters of another."""
    folder = write_run(tmp_path, steps=(10, 20))
    translator = Translator.from_checkpoint(folder, "10")
    (before, *_) = jax.tree.leaves(jax.device_get(translator.params))
    translator.use(restore(folder, "average:2"))
    assert translator.run.checkpoint == "mean of 2 (10 to 20)"
    assert (translator.run.step, translator.run.num_averaged) == (20, 2)
    (after, *_) = jax.tree.leaves(jax.device_get(translator.params))
    np.testing.assert_allclose(after, before * 1.15 / 1.1, rtol=1e-5)
    translator.params = None
    assert translator.params is None


def test_what_training_reads_in_float32_is_not_rounded(tmp_path):
    """Catches a Translator in bfloat16 whose positions differ from those of training."""
    options = dict(positions="t5", dtype="bfloat16")
    for kind, task in (Translator, "translation"), (Classifier, "classification"):
        params = kind.from_checkpoint(write_run(tmp_path / task, task, **options)).params
        types = {path[-1].key: a.dtype.name for path, a in jax.tree.leaves_with_path(params)}
        assert types["biases"] == types["scale"] == "float32"
        assert types["table"] == "bfloat16"
    assert params["classes"]["kernel"].dtype == "float32"


def test_parameters_of_another_model_are_refused(tmp_path):
    """Catches a module that was changed since, and fails deep inside Flax."""
    run = write_run(tmp_path / "run")
    note_settings(run, **{"model.d_model": 32})
    with pytest.raises(ValueError, match=r"do not fit .* be \(\d+, 32\), but is \(\d+, 16\)"):
        restore(run)
    note_settings(run, **{"model.num_layers": 2})
    with pytest.raises(ValueError, match="other layers than the settings say"):
        restore(run)
