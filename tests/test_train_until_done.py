"""The program that restarts a preempted training, with a command that only counts its starts."""

import signal
import subprocess
import sys

import pytest

from tests.helpers.scripts import HANGS, ROOT, finish, signals_are_heard, wait_for

SCRIPT = ROOT / "tools" / "train_until_done.py"


@pytest.fixture
def start(tmp_path):
    """Starts the program with a command that ends with these codes, one for each start."""
    processes = []

    def start(codes, *flags, command=""):
        (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
        text = f'echo >>starts; {command} exit "$(sed -n "$(wc -l <starts)p" codes)"'
        arguments = [sys.executable, SCRIPT, "--pause_seconds=0.01", *flags, "sh", "-c", text]
        with signals_are_heard():
            processes.append(subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.PIPE))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("codes", "flags"),
    [([75, 134, 75, 0], []), ([75, 2], []), ([130], []), ([75] * 8 + [0], ["--quick_seconds=0"])],
)
def test_only_a_preempted_run_is_started_again(codes, flags, start, tmp_path):
    """Catches a mistake, or a finished run, that is started again for ever on a rented slice, and a
    run of weeks on spot machines that is given up at its sixth preemption."""
    assert start([*codes, 99], *flags).wait(HANGS) == codes[-1]
    assert (tmp_path / "starts").read_text().count("\n") == len(codes)


def test_a_run_that_is_always_preempted_at_once_is_given_up(start, tmp_path):
    """Catches a loop that spins, and pauses that do not grow."""
    process = start([75] * 9, "--max_quick=3")
    ((ended, said),) = finish([process])
    assert ended == 75
    assert (tmp_path / "starts").read_text().count("\n") == 3
    assert "restart 1 in 0.01 s" in said and "restart 2 in 0.02 s" in said
    assert said.splitlines()[-1].endswith("giving up: the last 3 starts ended within 600 s")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_run_which_is_not_started_again(number, start, tmp_path):
    """Catches a run that is killed without saving, or survives its scheduler's notice."""
    name = signal.Signals(number).name.removeprefix("SIG")
    trap = f"trap 'echo >saved; exit 75' {name}; touch ready; while :; do sleep 0.05; done;"
    process = start([0], command=trap)
    wait_for((tmp_path / "ready").exists, process)
    process.send_signal(number)
    assert process.wait(HANGS) == 75
    assert (tmp_path / "saved").exists()
    assert (tmp_path / "starts").read_text().count("\n") == 1


def test_a_signal_ends_the_pause(start, tmp_path):
    """Catches a program that starts training while its machine is being taken away."""
    process = start([75, 0], f"--pause_seconds={2 * HANGS}")
    assert f"restart 1 in {2 * HANGS} s" in process.stderr.readline().decode()
    process.terminate()
    assert process.wait(HANGS) == 75
    assert (tmp_path / "starts").read_text().count("\n") == 1


def test_a_command_that_is_not_there(tmp_path):
    """Catches a stack trace for a misspelt command, and a wait for nothing without one."""
    for words, code, said in ((["no_such_command"], 127, "cannot be started"), ([], 2, "usage:")):
        ended = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)
        assert ended.returncode == code and said in ended.stderr
