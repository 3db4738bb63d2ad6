"""Which sentences are searched together, and in which shapes."""

import numpy as np
import pytest

from tests.helpers.control_ids import EOS
from transformer.data.rows.bucketing import batch_sizes, fill_inputs, plan_batches
from transformer.data.rows.ragged import Ragged


@pytest.mark.parametrize("num_replicas", [1, 4])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_every_sentence_is_in_one_batch_of_its_own_length(count, num_replicas):
    """Catches sentences lost, doubled or in another's bucket, and replicas that are left empty."""
    lengths = np.random.default_rng(count).integers(1, 90, count)
    seen = []
    for indices, bucket in plan_batches(lengths, 64, 8, num_replicas):
        assert len(indices) == num_replicas and indices.shape[1] in batch_sizes(8, bucket)
        inside = indices[indices >= 0]
        for length in lengths[inside]:  # whatever stands beside it
            assert bucket == next(n for n in (16, 32, 64) if n >= min(64, length))
        assert np.ptp((indices >= 0).sum(1)) <= 1
        seen += inside.tolist()
    assert sorted(seen) == list(range(count))


def test_too_long_a_sentence_is_cut_before_its_end():
    """Catches a cut that takes the end of the sentence, and a row without one that has a length."""
    source = Ragged.from_lists([[5, 6, 7, 8, EOS], [9, EOS]])
    ids, lengths = fill_inputs(source, np.array([1, 0, -1]), 3)
    assert ids.tolist() == [[9, EOS, 0], [5, 6, EOS], [0, 0, 0]]
    assert lengths.tolist() == [2, 3, 0]
