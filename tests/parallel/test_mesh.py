"""Where arrays lie: every weight of the model has a place, and each place fits its shape."""

import jax
import optax
import pytest
from jax.sharding import PartitionSpec

from tests.helpers.tiny_models import make_batch, tiny_model
from transformer.config import MeshConfig
from transformer.parallel.mesh import mesh_shape, partition_spec_of
from transformer.train.steps import init_state

SIZES = {"data": 2, "fsdp": 2, "tensor": 2}


def places():
    """{name: (shape, place)} of a whole TrainState."""
    model, batch = tiny_model(), make_batch([[((5, 6), (7, 8))]], 4, 4)
    state = jax.eval_shape(lambda: init_state(model, optax.adam(1.0), batch, 0))
    return {
        jax.tree_util.keystr(path): (leaf.shape, partition_spec_of(path, leaf.shape, SIZES))
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def test_every_matrix_is_shared_by_both_axes():
    """Catches a weight that was renamed and now lies whole on every device, which costs memory."""
    matrices = {name: place for name, (shape, place) in places().items() if len(shape) == 2}
    assert len(matrices) == 3 * (1 + 2 * 6 + 2 * 10)  # parameters and two moments
    assert all(set(place) == {"fsdp", "tensor"} for place in matrices.values()), matrices


def test_moments_lie_with_their_parameters():
    """Catches an optimizer that moves all its state at every step."""
    found = places()
    moments = [name for name in found if ".mu" in name or ".nu" in name]
    assert moments
    for name in moments:
        parameter = ".params" + name.split("mu" if ".mu" in name else "nu", 1)[1]
        assert found[name] == found[parameter]


def test_dimension_that_cannot_be_shared_evenly_stays_whole():
    path = (jax.tree_util.DictKey("table"),)
    assert partition_spec_of(path, (13, 16), SIZES) == PartitionSpec(None, "fsdp")


@pytest.mark.parametrize(
    ("settings", "shape"),
    [((-1, 1, 1), (8, 1, 1)), ((2, -1, 2), (2, 2, 2)), ((1, 8, 1), (1, 8, 1))],
)
def test_minus_one_is_what_is_left(settings, shape):
    assert tuple(mesh_shape(MeshConfig(*settings), 8).values()) == shape
