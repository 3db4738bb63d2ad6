"""The notebook of the documentation runs from top to bottom, and is kept with its outputs."""

import json
import shutil
from pathlib import Path

import pytest

import transformer
from tests.helpers.commands import one_device
from tests.helpers.notes import note_settings
from tests.helpers.scripts import write_corpus
from tools.run_notebook import run_notebook

NOTEBOOK = Path(__file__).parents[2] / "docs" / "first_model.ipynb"


def kinds(notebook):
    """The kinds of outputs of each cell of code."""
    cells = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[output["output_type"] for output in outputs] for outputs in cells]


@pytest.mark.long
def test_the_notebook_runs_and_shows_what_it_is_kept_with(tmp_path, monkeypatch):
    """Catches a cell that has not kept up with the code, and outputs that nobody committed.

    It trains two steps of a smaller model on another corpus, which is what takes the time. The
    second model is the first one, finished, under the settings of the second.
    """
    pytest.importorskip("matplotlib")
    train, corpus = transformer.train, write_corpus(tmp_path / "corpus", num_train=60)

    def train_smaller(config, workdir, **options):
        config.data.corpus, config.tokenizer.kind = str(corpus), "pieces"
        config.model.d_model, config.model.d_ff = 16, 16
        config.model.num_heads, config.model.num_layers = 2, 1
        config.data.row_length, config.training.batch_tokens = 16, 64
        config.training.accumulate_steps = 1
        config.decoding.beam_size, config.decoding.max_extra_length = 1, 0
        if config.model.attention == "cosine":  # has the same weights
            shutil.copytree("runs/first", workdir)
            config.validate()
            Path(workdir, "config.json").write_text(config.to_json())
            note_settings(Path(workdir), **{"model.attention": "cosine"})
        return train(config, workdir, **options)

    monkeypatch.setattr(transformer, "train", train_smaller)
    monkeypatch.chdir(tmp_path)
    with one_device():
        executed = run_notebook(NOTEBOOK, NUM_STEPS=2)
    assert kinds(executed) == kinds(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    assert kinds(executed).count(["display_data"]) == 2  # the curves and the attention
    assert NOTEBOOK.stat().st_size < 200_000
