"""The names of Marian, M2M100 and mBART: one table in both directions."""

import numpy as np
import pytest
from flax.traverse_util import flatten_dict

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_config
from transformer.interop.huggingface.seq2seq import as_stored, entries
from transformer.interop.weights.name_table import read, write
from transformer.model.encoder_decoder import Transformer

IDS = np.array([[5, 6, 2]])
MARIAN = dict(num_layers=2, num_decoder_layers=1)
MBART = MARIAN | dict(norm="pre", positions="learned", embedding_norm=True)


@pytest.mark.parametrize("options", [MARIAN, MBART], ids=["marian", "mbart"])
@pytest.mark.parametrize("sharing", ["all", "target", "none"])
def test_every_parameter_has_a_name_of_theirs(sharing, options):
    """Catches a part of the model that the table forgets, in either direction."""
    config = tiny_config(
        embedding_sharing=sharing, projection_bias=True, output_bias=True, **options
    )
    model = Transformer(config, VOCAB_SIZE, VOCAB_SIZE)
    params = flatten_dict(random_params(model.init, IDS, IDS, deterministic=True), sep="/")
    tensors = write(entries(config), params)
    assert all(name.startswith(("model.", "lm_head.", "final_")) for name in tensors)
    back = read(entries(config), tensors)
    assert back.keys() == params.keys()
    assert all((back[name] == params[name]).all() for name in params)


def test_a_shared_table_is_found_by_any_of_its_names():
    """Catches a file whose only copy has the name of another module, or that has several."""
    model = tiny_config(num_layers=1)
    for stored in (["lm_head.weight"], ["model.shared.weight", "lm_head.weight"]):
        table, copies = as_stored(entries(model), "all", dict.fromkeys(stored, IDS))
        theirs = {entry.ours: entry.theirs for entry in table}
        assert theirs["shared_embedding/table"] == stored[0]
        assert set(stored) <= set(copies)
