"""TextEncoder: vectors of texts, the same whatever stands beside them."""

from functools import partial

import numpy as np
import pytest

from tests.helpers.random_runs import write_run
from transformer import TextEncoder, restore
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged

TEXTS = ["w1 w2 w3", "w4", "w5 w1 w9 w9 w2", "", "w3 w2"]


def by_hand(run, text):
    """The encoder's output of one text alone, [S, D]."""
    ids = np.array(run.tokenizers[0].encode([text]))
    encode = partial(run.model.apply, {"params": run.params}, deterministic=True, method="encode")
    if run.config.task == "translation":
        return encode(ids, np.arange(ids.shape[1]), np.ones_like(ids))[0]
    return encode(PackedBatches(*[Ragged.from_lists(ids)] * 2, row_length=ids.shape[1],
                                rows_per_batch=1, seed=0)[0])[0]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("task", ["masked_lm", "classification", "translation"])
def test_vectors_are_those_of_the_text_alone(task, tmp_path):
    """Catches a mean over padding, a text in another's row, and positions that are not its own."""
    encoder = TextEncoder.from_checkpoint(write_run(tmp_path / "run", task))
    run = restore(tmp_path / "run")
    states = [by_hand(run, text) for text in TEXTS]
    mean, first = encoder.encode(TEXTS), encoder.encode(TEXTS, pooling="first")
    assert mean.shape == first.shape == (5, 16) and mean.dtype == np.float32
    np.testing.assert_allclose(mean, [x.mean(0) for x in states], atol=1e-5)
    np.testing.assert_allclose(first, [x[0] for x in states], atol=1e-5)
    assert encoder.encode([]).shape == (0, 16) and not encoder.num_truncated


def test_what_it_cannot_encode_is_said(tmp_path):
    """Catches a text that is cut in silence, a string taken for a list, and a misspelt pooling."""
    encoder = TextEncoder.from_checkpoint(write_run(tmp_path / "run", "masked_lm"))
    assert len(encoder.encode(["w1 " * 40, "w1"])) == 2 and encoder.num_truncated == 1
    with pytest.raises(ValueError, match="list of sentences"):
        encoder.encode("w1")
    with pytest.raises(ValueError, match="pooling must be mean or first, not 'max'"):
        encoder.encode(["w1"], pooling="max")
    with pytest.raises(ValueError, match="holds a run of language_model, not of masked_lm or"):
        TextEncoder.from_checkpoint(write_run(tmp_path / "other", "language_model"))
