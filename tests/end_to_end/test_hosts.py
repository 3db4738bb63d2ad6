"""Two processes of two fake devices each, as two hosts of a run; and what one host can tell."""

import json
import signal
from unittest.mock import patch

import jax
import pytest

from tests.helpers.commands import call
from tests.helpers.rings import others_long
from tests.helpers.scripts import (
    QUICKLY,
    finish,
    losses,
    run_python,
    signal_at_call,
    start_words,
)
from tests.helpers.two_hosts import NOTHING, free_port, start_two
from transformer.parallel import devices

STEPS = ["--config.training.eval_every=6", "--config.training.checkpoint_every=4"]
STEPS += [*QUICKLY, "--config.model.dropout_rate=0.0"]  # pmap draws its own for each device


def second_sent(number, step):
    """What `start_two` is told to send the second host a signal at a step, from 1 of this start."""
    report = "transformer.training.trainer.Trainer._report"
    return NOTHING, ((), {"patch": signal_at_call(number, report, step)})


@pytest.mark.long
def test_two_hosts_learn_what_one_does_and_either_resumes_from_the_others_checkpoint(
    config, tmp_path
):
    """Catches batches, dropout or sums that depend on the hosts, and checkpoints tied to them;
    every line printed, or every report written, once per host; and hosts that save different steps,
    or wait for ever for one that is gone.

    Two hosts go to step 6, one to 9, two on until one is told to stop after step 12, and again
    until one is killed. Each in another way: pmapped, alone, and sharded over two axes.
    """

    def train_alone(workdir, num_steps):
        flags = [f"--config={config}", f"--workdir={workdir}", *STEPS]
        code, _, err = call("train.py", *flags, f"--config.training.num_train_steps={num_steps}")
        assert code == 0, err
        return err

    workdir, mesh = tmp_path / "two", ["--config.mesh.fsdp=2", "--config.mesh.tensor=2"]
    mesh += ["--config.training.eval_every=300"]
    pmap = ["--config.training.num_train_steps=6", "--config.parallelism=pmap"]
    said = finish(start_two(config, workdir, *STEPS, *pmap))
    assert [code for code, _ in said] == [0, 0], said
    assert "4 × cpu on 2 hosts" in said[0][1] and "eval.py --workdir=" in said[0][1]
    # On a slow machine the second host shows what takes long before it knows that it is the second.
    early = "importing JAX (", "waiting for all of 2 hosts"
    assert all(any(phase in line for phase in early) for line in said[1][1].splitlines()), said
    assert "resuming at step 6" in train_alone(workdir, 9)
    said = finish(start_two(config, workdir, *STEPS, *mesh, own=second_sent(signal.SIGTERM, 4)))
    assert [code for code, _ in said] == [75, 75], said
    assert "resuming at step 9" in said[0][1]
    assert "and saved; the same command goes on" in said[0][1]
    stopped = max(losses(workdir))
    assert (workdir / "checkpoints" / str(stopped)).is_dir()

    train_alone(tmp_path / "one", 12)
    expected = losses(tmp_path / "one")
    assert sorted(expected) == list(range(1, 13))
    found = {step: loss for step, loss in losses(workdir).items() if step <= 12}
    assert found == pytest.approx(expected, rel=1e-4)
    steps = [json.loads(line)["step"] for line in (workdir / "metrics.jsonl").open()]
    assert steps == sorted(steps)  # one writer: a second one would repeat them
    assert sum(step == 5 for step in steps) == 1

    own = second_sent(signal.SIGKILL, 4)
    (code, text), _ = finish(start_two(config, workdir, *STEPS, *mesh, own=own))
    assert f"resuming at step {stopped}" in text
    assert code in (75, -signal.SIGABRT)
    assert "Another host has stopped or cannot be reached" in text or "another task died" in text


@pytest.mark.long
def test_hosts_that_were_told_different_things_are_refused(config, tmp_path):
    """Catches a slice of which each host trains another model, and hangs or learns nonsense."""
    own = NOTHING, (["--config.training.seed=1"], {})
    said = finish(start_two(config, tmp_path / "x", *STEPS, own=own))
    assert all(code == 2 and "The hosts differ in" in text for code, text in said), said


ALONE = """
from transformer import console
from transformer.cli.flags import HostFlags
from transformer.cli.process import connect_hosts
from transformer.parallel import hosts

console.SHOW_EVERY, hosts.WAIT_SECONDS = (0.0, 0.0), 1
with console.showing_phases():
    connect_hosts(HostFlags(coordinator="localhost:1", num_processes=2, process_id=1))
"""


def test_a_host_alone_says_what_it_waits_for_and_gives_up():
    """Catches a wait without end, or in silence, for a host that never starts."""
    code, _, err = run_python(ALONE)
    assert code == 75, err
    who = "all of 2 hosts at localhost:1"
    assert err.startswith(f"waiting for {who}\n")
    assert err.splitlines()[-1].startswith(f"error: not {who} came within 1 s; start the same ")


PAIR = """
import signal, sys
import transformer
from transformer.cli.flags import HostFlags
from transformer.cli.process import connect_hosts, run_guarded, run_process
from transformer.console import say
from transformer.parallel import hosts
from transformer.parallel.stopping import Interruption, Stopping

port, host, version = sys.argv[1], int(sys.argv[2]), sys.argv[3]
transformer.__version__ += version

def work(items):
    if host == 1:
        signal.raise_signal(signal.SIGTERM)
        hosts.leave_if_told()
    say("works to its end", on_every_host=True)
    return items

def main():
    connect_hosts(HostFlags(coordinator=f"localhost:{port}", num_processes=2, process_id=host))
    stopping = Stopping(0)
    with stopping.noting_signals():
        try:
            with hosts.interruptible(stopping):
                hosts.split_over_hosts(work, [1, 2])
        except Interruption:
            say("left", on_every_host=True)
    hosts.wait_for_all("all is said")
    return stopping.exit_code

run_process(lambda argv: run_guarded(main))
"""


@pytest.mark.long
def test_hosts_leave_their_work_together_and_are_of_one_version():
    """Catches hosts of two versions that train together, and one that works on, or waits for ever,
    while another has left an evaluation."""
    pairs = []
    for versions in (("", ""), ("", ".1")):
        port = free_port()
        words = ["-c", PAIR, port]
        pairs.append([start_words([*words, host, versions[host]]) for host in range(2)])
    (whole, left), refused = map(finish, pairs)
    assert [code for code, _ in (whole, left)] == [75, 75], (whole, left)
    ends = [[line[20:] for line in text.splitlines()][-2:] for _, text in (whole, left)]
    assert ends == [["works to its end", "left"], ["left"]]
    assert [code for code, _ in refused] == [2, 2], refused
    assert all("The hosts differ in their versions of this package" in text for _, text in refused)


def check_accelerators(accelerators):
    """Checks whether JAX, which uses the CPU, passes over one of these; returns what is said."""
    said = []
    backend = patch.object(jax, "default_backend", return_value="cpu")
    with backend, patch.multiple(devices, ACCELERATORS=accelerators, say=said.append):
        devices.check_accelerator()
    return "".join(said)


def test_an_accelerator_that_jax_cannot_use_is_not_passed_over(tmp_path, monkeypatch):
    """Catches days on a CPU beside an idle, or busy, accelerator, and a graphics or network card
    that a virtual machine passes through and that is taken for a TPU."""
    (tmp_path / "nvidia0").touch()
    here, settings = f"{tmp_path}/nvidia[0-9]*", type(jax.config)
    monkeypatch.setattr(settings, "jax_platforms", "cpu", raising=False)
    assert check_accelerators({here: ["json"]}) == ""  # it is meant
    monkeypatch.setattr(settings, "jax_platforms", None)
    assert check_accelerators({f"{tmp_path}/accel[0-9]*": ["json"]}) == ""  # there is none
    # A package for accelerators of another kind, as for --topology, is not a fault.
    said = check_accelerators({here: ["no_such_plugin"], "/none": ["json"]})
    assert "pip install -e '.[cuda12]'" in said
    with pytest.raises(ValueError, match="JAX_PLATFORMS=cpu"):
        check_accelerators({here: ["json"]})

    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "12").touch()
    vendor = tmp_path / "12" / "devices" / "0000:01:00.0" / "vendor"
    vendor.parent.mkdir(parents=True)
    monkeypatch.setattr(devices, "IOMMU_GROUPS", str(tmp_path), raising=False)
    for maker, is_tpu in (("0x10de", False), ("0x1ae0", True)):
        vendor.write_text(f"{maker}\n")
        said = check_accelerators({f"{tmp_path}/vfio/[0-9]*": ["no_such_plugin"]})
        assert bool(said) is is_tpu


USE_CORES = """
import jax
from transformer.parallel import devices

devices.use_cores_as_devices(2)
print(len(jax.devices()))
devices.use_cores_as_devices(2)
"""
CHOICES = [({}, 2), ({"JAX_NUM_CPU_DEVICES": "1"}, 1)]
CHOICES += [({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, 3)]


@pytest.mark.parametrize("chosen, number", others_long(CHOICES, CHOICES[0]))
def test_cores_become_devices_unless_the_user_chose(chosen, number, monkeypatch):
    """Catches a choice that is overruled, and a crash where JAX runs already."""
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    code, out, err = run_python(USE_CORES, env={"XLA_FLAGS": ""} | chosen)
    assert (out.decode(), code) == (f"{number}\n", 0), err
