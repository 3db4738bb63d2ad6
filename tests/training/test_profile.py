"""Traces of training steps, read back as TensorBoard's plugin reads them."""

import socket
from types import SimpleNamespace

import jax
import pytest

from tests.training.test_trainer import make_trainer
from transformer.exit_codes import DONE
from transformer.training.profile import Profile, serve_profiles
from transformer.workdir import WorkDir


def read_trace(folder):
    """(steps that are marked, names of the other phases) in the one trace in a folder."""
    (file,) = folder.glob("plugins/profile/*/*.xplane.pb")
    assert list(file.parent.glob("*.trace.json.gz"))
    planes = jax.profiler.ProfileData.from_file(str(file)).planes
    events = [event for plane in planes for line in plane.lines for event in line.events]
    steps = [dict(event.stats)["step_num"] for event in events if event.name == "train"]
    return steps, {event.name for event in events} & {"input", "evaluation"}


def test_the_steps_asked_for_are_traced_and_no_others(tmp_path, capsys):
    """Catches a trace of one step too many or too few, or without names, or on every host."""
    assert not Profile("2:3", WorkDir(tmp_path, writes=False), 6).is_due(3)
    trainer = make_trainer(tmp_path, num_train_steps=6, eval_every=4)
    assert trainer.run(profile=Profile("2:3", trainer.workdir, 6)) == DONE
    assert read_trace(tmp_path / "profile") == ([3, 4, 5], {"input", "evaluation"})
    said = capsys.readouterr().err
    assert f"profile: {tmp_path}/profile" in said and "no profile" not in said
    trainer = make_trainer(tmp_path, num_train_steps=7)  # resumes after those steps
    assert trainer.run(profile=Profile("2:3", trainer.workdir, 7)) == DONE
    assert "no profile, as steps 3 to 5 were not trained" in capsys.readouterr().err


def test_a_run_that_fails_keeps_its_profile_and_ends_it(tmp_path):
    """Catches a profiler that goes on after the run, so that the next run cannot have one."""

    def fail_at_two(step, metrics):
        if step == 2:
            raise KeyError("of the caller's own")

    trainer = make_trainer(tmp_path, on_report=fail_at_two)
    with pytest.raises(KeyError):
        trainer.run(profile=Profile("0:9", trainer.workdir, 5))
    trainer.close()
    assert read_trace(tmp_path / "profile")[0] == [1, 2]
    with pytest.raises(RuntimeError, match="No profile started"):
        jax.profiler.stop_trace()


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        *((text, "run", "must be STEP:COUNT, as 100:5 for") for text in ("5", "5:0", "5:2:1")),
        ("1000:2", "run", "begins after the last step, 1,000"),
        ("5:2", "gs://bucket/run", "writes to local folders only"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(text, path, said):
    """Catches a profile that is asked for and silently not made, after a run of days perhaps."""
    with pytest.raises(ValueError, match=f"--profile={text} {said}"):
        Profile(text, SimpleNamespace(path=path), 1000)


def test_profiles_are_served_at_a_free_port(monkeypatch):
    """Catches a port that another process has, which JAX only logs, and one that cannot be."""
    started = []
    monkeypatch.setattr(jax.profiler, "start_server", started.append)
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
        for wrong in (port, 70000):
            with pytest.raises(ValueError, match=f"must be a free port .* not {wrong}"):
                serve_profiles(wrong)
    serve_profiles(port)
    assert started == [port]
