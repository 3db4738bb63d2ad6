"""What was saved is restored, or an older step with a warning, or an error says why not."""

import math
import shutil
import threading
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from etils import epath
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.helpers.full_disk import no_file_beyond
from tests.helpers.notes import change_notes
from transformer.checkpoint import fingerprint
from transformer.checkpoint.checkpoints import SCORE, Checkpoints
from transformer.checkpoint.fingerprint import fingerprints
from transformer.checkpoint.orbax_manager import Manager
from transformer.checkpoint.train_state import TrainState
from transformer.exit_codes import ResumableError
from transformer.workdir import WorkDir


def make_state(step):
    params = {"a": {"w": jnp.full((40, 30), float(step))}, "b": jnp.arange(5.0) + step}
    opt_state = optax.adam(1e-3).init(params)
    return TrainState(jnp.asarray(step, jnp.int32), params, opt_state)


def save(folder, steps, keep=3):
    """Saves (step, score or None, validation loss) as training does: the score comes after it."""
    checkpoints = Checkpoints(folder, keep=keep)
    for step, score, *loss in steps:
        checkpoints.save(make_state(step))
        if score is not None:
            checkpoints.record_score(step, score, *loss)
            record = {"step": step, SCORE: score, "validation_loss": (*loss, math.inf)[0]}
            WorkDir(checkpoints.folder.parent).append_metrics(record)
    checkpoints.wait()
    return checkpoints


@pytest.mark.parametrize(
    ("steps", "keep", "left"),
    [
        ([(1, 5.0), (2, 9.0), (3, None), (4, 7.0), (5, None), (6, 0.0)], 2, [2, 5, 6]),
        ([(1, 9.0, 0.5), (2, 9.0, 0.25), (3, 9.0, 0.25), (4, 9.0, math.nan)], 1, [2, 4]),
    ],
)
def test_keeps_the_last_and_the_best(tmp_path, steps, keep, left):
    """Catches a best step that is deleted, as its score came after it, a score that is lost, and a
    run that never improves whose newest checkpoint is called the best: of equal scores the lower
    loss and then the earlier step is best."""
    checkpoints = save(tmp_path / "run", steps, keep)
    assert checkpoints.steps() == left
    assert checkpoints.best_step() == 2
    assert Checkpoints(tmp_path / "run", keep=1, read_only=True).best_step() == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_failed_save_costs_one_checkpoint(tmp_path):
    """Catches the error raised again at the next save, and a temporary folder that stays."""
    checkpoints = save(tmp_path, [(1, None)])
    with no_file_beyond(10), pytest.raises((OSError, ValueError)):
        checkpoints.save(make_state(2))
        checkpoints.wait()
    assert checkpoints.steps() == [1]
    checkpoints.save(make_state(3))
    checkpoints.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]


def test_only_a_damaged_checkpoint_is_replaced(tmp_path):
    """Catches a bad step that stays when training comes by again, a good one that is risked, and
    fingerprints that are saved and never compared: Orbax sees most damage by itself."""
    save(tmp_path, [(1, None), (2, None)])
    file = tmp_path / "2" / "about" / "metadata"
    change_notes(file, lambda about: about["fingerprints"]["params"].reverse())
    checkpoints = Checkpoints(tmp_path, keep=3)
    with pytest.warns(UserWarning, match="Checkpoint 2 cannot be used: the params on disk are not"):
        assert checkpoints.restore(make_state(0)).step == 1
    before = (tmp_path / "1" / "about" / "metadata").stat().st_mtime_ns
    for step in (1, 2):
        checkpoints.save(make_state(step))
    checkpoints.wait()
    assert checkpoints.restore(make_state(0)).step == 2
    assert (tmp_path / "1" / "about" / "metadata").stat().st_mtime_ns == before
    save(tmp_path / "alone", [(1, None)])
    save(tmp_path / "alone", [(1, None)])  # kept: a kill must not leave the run without any
    assert Checkpoints(tmp_path / "alone", keep=1).steps() == [1]


def test_a_checkpoint_that_cannot_be_read_now_is_not_passed_over(tmp_path, monkeypatch):
    """Catches a disk that fails for a moment and has training begin again from an older step, bits
    that are rounded on the way to the disk and back, and an optimizer state of dicts."""
    checkpoints, read = save(tmp_path, [(1, None), (2, None)]), Checkpoints._read
    reason = "Error reading local file: Input/output error [OS error 5: EIO]"

    def fail_once(self, step, targets):
        monkeypatch.setattr(Checkpoints, "_read", read)
        raise ValueError(reason)

    monkeypatch.setattr(Checkpoints, "_read", fail_once)
    with pytest.raises(ResumableError, match=r"/2 cannot be read at the moment .*EIO\]\): start"):
        checkpoints.restore(make_state(0))
    restored, saved = checkpoints.restore(make_state(0)), make_state(2)
    assert fingerprints(restored) == fingerprints(saved)
    assert type(restored.opt_state) is type(saved.opt_state)


@pytest.mark.parametrize(
    ("name", "what", "value"),
    [
        ("default", ("best (2)", 2, 1), 2.0),
        ("last", ("last (6)", 6, 1), 6.0),
        ("4", ("4", 4, 1), 4.0),
        ("average:2", ("mean of 2 (4 to 6)", 6, 2), 5.0),
        ("average:3", ("mean of 3 (2 to 6)", 6, 3), 4.0),
        ("average:4", ("mean of 3 (2 to 6)", 6, 3), 4.0),
    ],
)
def test_loads_by_name(tmp_path, name, what, value):
    """Catches the name or step of another checkpoint than the one that was loaded, and a sum that
    is divided by the number asked for, early in a run."""
    save(tmp_path / "run", [(2, 9.0), (4, None), (6, 1.0)], keep=2)
    loaded = Checkpoints(tmp_path / "run", keep=4, read_only=True).load(name)
    assert loaded[:3] == what
    assert loaded.params["a"]["w"][0, 0] == value


def test_the_last_one_is_loaded_where_none_with_a_score_is_left(tmp_path, recwarn):
    """Catches a warning that the next best is used where the last is."""
    save(tmp_path / "run", [(2, 9.0), (4, None)])
    shutil.rmtree(tmp_path / "run" / "2")
    checkpoints = Checkpoints(tmp_path / "run", keep=2, read_only=True)
    assert (checkpoints.load("default").name, [*recwarn]) == ("last (4)", [])


def test_wrong_names_are_refused_with_what_exists(tmp_path, caplog):
    """Catches a misspelt checkpoint for which another one is loaded, and Orbax's warning that a
    folder is read-only."""
    checkpoints = save(tmp_path, [(2, None)], keep=2)
    for name, said in (
        ("newest", "'last', 'best', a step or 'average:N', not 'newest'"),
        ("7", r"holds the steps \[2\], not 7"),
        ("average:9", "keep_checkpoints=9"),
        ("best", "has a score yet"),
    ):
        with pytest.raises(ValueError, match=said):
            checkpoints.load(name)
    with pytest.raises(ValueError, match="holds no checkpoint"):
        Checkpoints(tmp_path / "nothing", keep=1, read_only=True).load("last")
    assert caplog.records == [] and not (tmp_path / "nothing").exists()


def test_a_fingerprint_sees_any_single_bit_of_any_type():
    """Catches a sum in which some bit has no weight, another than in the docstring, and an error
    for float64, complex, keys or truth values in the state of an optimizer of one's own."""
    docstring = [jnp.array([5, 9], jnp.uint32), jnp.array([5, 8], jnp.uint32)]
    assert fingerprints(docstring) == [32, 29]
    assert fingerprints([jnp.array([True, False]), jnp.array([True, True])]) == [1, 4]
    key = jax.random.key(3)
    assert fingerprints([key]) == fingerprints([jax.random.key_data(key)])
    with jax.enable_x64(True):
        for dtype in (np.float32, np.int64, np.float64, np.complex64, np.complex128):
            array = np.array([[1], [2]], dtype)
            whole = fingerprints([jnp.asarray(array)])
            assert fingerprints([jnp.asarray(array.reshape(1, 2, 1))]) == whole
            for bit in range(8 * array.nbytes):
                bits = array.copy().view(np.uint8)
                bits.flat[bit // 8] ^= 1 << bit % 8
                assert fingerprints([jnp.asarray(bits.view(dtype))]) != whole


def test_a_fingerprint_of_a_split_array_gathers_nothing():
    """Catches a save that needs the memory of whole arrays on every device."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    array = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    split = jax.device_put(array, NamedSharding(mesh, P(None, "data")))
    assert fingerprints([split]) == fingerprints([array])
    program = fingerprint._fingerprint.lower(split).compile().as_text()
    assert "all-gather" not in program and "all-to-all" not in program


def test_a_save_that_fails_on_one_host_ends_the_run_in_a_sentence(tmp_path, monkeypatch):
    """Catches a traceback of Orbax's, a lost host that is taken for a full disk, and ten minutes in
    which all hosts stand still, as they wait for the host whose save failed."""
    manager = Manager(epath.Path(tmp_path), 1, lambda steps: None, read_only=False)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    orbax = manager._orbax = Mock(own_error=None)
    orbax.wait_until_finished.side_effect = RuntimeError("no space")
    with pytest.raises(ResumableError, match=r"could not be written: no space\. Start"):
        manager.wait_until_finished()
    orbax.wait_until_finished.side_effect = jax.errors.JaxRuntimeError("UNAVAILABLE: a host")
    with pytest.raises(jax.errors.JaxRuntimeError, match="UNAVAILABLE"):
        manager.wait_until_finished()
    orbax.own_error, orbax.wait_until_finished = RuntimeError("no space"), threading.Event().wait
    with pytest.raises(ResumableError, match="could not be written: no space"):
        manager.wait_until_finished()
