"""Pictures: they are drawn from whatever a run has logged so far."""

import numpy as np
import pytest

from transformer.evaluate import plots

pytest.importorskip("matplotlib", reason="pictures need matplotlib")


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 2000


def test_curves_of_a_whole_run_and_of_one_that_has_just_begun(tmp_path):
    records = [{"step": s, "loss": 5.0 / s, "learning_rate": s * 1e-4} for s in range(1, 9)]
    evaluated = [{"step": 8, "validation_loss": 1.0, "validation_bleu": 12.0}]
    for number, some in enumerate(([], records[:1], records, records + evaluated)):
        path = tmp_path / f"{number}.png"
        plots.plot_curves(some, path, "a title")
        assert is_picture(path)


def test_attention_with_pieces_that_matplotlib_would_misread(tmp_path):
    """A single $ begins mathematics and would raise; ▁ has no glyph."""
    source, target = ["▁$", "_x^2", "</s>"], ["▁5", "$$\\frac", "é", "</s>"]
    weights = np.full((2, 4, 4, 3), 1 / 3)
    path = tmp_path / "map.png"
    plots.plot_attention(source, target, weights, path, "costs $5 and $6")
    assert is_picture(path)
