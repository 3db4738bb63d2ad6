"""tasks/translation.py: which settings reach the batches."""

import numpy as np
import pytest

from tests.helpers.scripts import write_corpus
from transformer.config import Config, DataConfig, ModelConfig
from transformer.parallel.mapping import make_parallel
from transformer.tasks.translation import TranslationTask
from transformer.workdir import WorkDir


@pytest.fixture(scope="module")
def make_task(tmp_path_factory):
    """A task on a small corpus, by settings of `data`."""
    folder = tmp_path_factory.mktemp("translation")
    corpus = str(write_corpus(folder / "corpus"))

    def make(**data):
        config = Config(model=ModelConfig(d_model=16, num_heads=2))
        config.data = DataConfig(
            **dict(corpus=corpus, validation_split="val", row_length=32) | data
        )
        config.tokenizer.vocab_size, config.training.batch_tokens = 280, 256
        return TranslationTask(config.validate(), make_parallel(config), WorkDir(folder / "run"))

    return make


def test_subword_dropout_is_for_training_alone(make_task):
    """Catches a setting that is read and ignored, and a validation that is random."""
    plain, random = make_task(), make_task(subword_dropout=0.4)
    assert plain.training_batches.subword_dropout is None
    assert all(map(np.array_equal, plain.validation_batches[0], random.validation_batches[0]))
    assert plain.validation_pairs == random.validation_pairs
    shown = [task.training_batches[0].targets for task in (plain, random)]
    assert not np.array_equal(*shown)
    lines = "\n".join(random.summary_lines())
    assert "subwords    0.4 of the merges dropped: sources have " in lines
    assert "subwords" not in "\n".join(plain.summary_lines())


def test_few_pairs_and_rows_too_short_are_warned_of(make_task):
    """Catches a best checkpoint that the BLEU of two sentences chose, and a run that trains on the
    shortest sentences alone, without a word or among many figures."""
    task = make_task()
    task.validation_pairs = task.validation_pairs[:4]
    assert "warning     4 validation pairs are too few" in "\n".join(task.summary_lines())
    task.validation_pairs *= 13
    assert "too few" not in "\n".join(task.summary_lines())
    said = "of the training text is left out (more than"
    assert said not in "\n".join(task.summary_lines())
    assert f"{said} 8 pieces): raise" in "\n".join(make_task(row_length=8).summary_lines())
