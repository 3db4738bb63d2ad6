"""How arrays are divided over the mesh: every weight by both axes, moments as their parameters."""

import jax
import optax
import pytest
from jax.sharding import PartitionSpec

from tests.helpers.tiny_models import make_batch, tiny_model
from transformer.config import MeshConfig
from transformer.parallel.mapping import mesh_shape, partition_spec_of, rows_of_host
from transformer.training.steps import init_state

SIZES = {"data": 2, "fsdp": 2, "tensor": 2}


@pytest.fixture(scope="module")
def specs():
    """{name: (shape, PartitionSpec)} of a whole TrainState."""
    model, batch = tiny_model(num_layers=1), make_batch([[((5, 6), (7, 8))]], 4, 4)
    state = jax.eval_shape(lambda: init_state(model, optax.adam(1.0), batch, 0))
    return {
        jax.tree_util.keystr(path): (leaf.shape, partition_spec_of(path, leaf.shape, SIZES))
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
    }


def test_every_matrix_is_divided_by_both_axes(specs):
    """Catches a weight that was renamed and now lies whole on every device, which costs memory."""
    matrices = {name: spec for name, (shape, spec) in specs.items() if len(shape) == 2}
    assert len(matrices) == 3 * (1 + 6 + 10)  # parameters and two moments
    assert all(set(spec) == {"fsdp", "tensor"} for spec in matrices.values()), matrices


def test_moments_lie_with_their_parameters(specs):
    """Catches an optimizer that moves all its state at every step."""
    moments = [name for name in specs if ".mu" in name or ".nu" in name]
    assert moments
    for name in moments:
        parameter = ".params" + name.split("mu" if ".mu" in name else "nu", 1)[1]
        assert specs[name] == specs[parameter]


def test_dimension_that_cannot_be_divided_evenly_stays_whole():
    """Catches an error for a vocabulary of odd size."""
    path = (jax.tree_util.DictKey("table"),)
    assert partition_spec_of(path, (13, 16), SIZES) == PartitionSpec(None, "fsdp")


@pytest.mark.parametrize(
    ("settings", "shape"),
    [((-1, 1, 1), (8, 1, 1)), ((2, -1, 2), (2, 2, 2)), ((1, 8, 1), (1, 8, 1))],
)
def test_minus_one_is_what_is_left(settings, shape):
    """Catches devices that no axis uses."""
    assert tuple(mesh_shape(MeshConfig(*settings), 8).values()) == shape


@pytest.mark.parametrize(
    ("devices", "rows"),
    [
        ([(0, 1), (1, 2)], (0, 4)),
        ([(2, 3), (3, None)], (4, 8)),
        ([(1, 2), (3, 4)], (2, 8)),
        ([(None, None)], (0, 8)),  # the only host
    ],
)
def test_a_host_needs_the_rows_of_its_devices(devices, rows):
    """Catches a host without the rows of one of its devices. devices: the shards of each."""

    class Sharding:
        def addressable_devices_indices_map(self, shape):
            assert shape == (4,)
            return {str(shard): (slice(*shard),) for shard in devices}

    assert rows_of_host(Sharding(), num_shards=4, num_rows=8) == rows
