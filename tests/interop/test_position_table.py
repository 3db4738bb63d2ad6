"""Tables of positions beside the modules that compute them."""

import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.interop.weights.folds import position_table
from transformer.model.embedding import make_position_encoding
from transformer.model.relative_positions import acts_in_attention
from transformer.registry import POSITION_ENCODINGS

ON_EMBEDDING = [
    name
    for name in POSITION_ENCODINGS.built_in
    if not acts_in_attention(tiny_config(positions=name))
]


@pytest.mark.parametrize("positions", ON_EMBEDDING)
def test_tables_hold_what_the_modules_give(positions):
    """Catches a wrong frequency or first position, and a learned table that ends too early."""
    config = tiny_config(positions=positions, max_positions=16)
    module, places = make_position_encoding(config), np.arange(24)
    params = random_params(module.init, places) if positions == "learned" else {}
    flat = {"source_positions/table": np.asarray(params["table"])} if params else {}
    expected = module.apply({"params": params}, places)
    found = position_table(config, flat, "source", len(places))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-5)
