"""Harm to one of two hosts of a run at a random moment, then another start of both."""

import json
import random
import resource
import shutil
import signal
import subprocess
import time

from tests.helpers.scripts import QUICKLY, ROOT, finish, losses, write_config
from tests.helpers.two_hosts import NOTHING, start_two
from tests.torture import Outcome, Trial
from transformer.parallel.hosts import WAIT_SECONDS

HARM = "one of two hosts killed, stopped, signalled, out of disk, or given something else"
NUM_STEPS = 30
ARGUMENTS = [f"--config.training.num_train_steps={NUM_STEPS}", "--config.training.eval_every=15"]
ARGUMENTS += ["--config.training.checkpoint_every=5", *QUICKLY]
LIMIT = 60  # seconds in which every host must say a sentence and end, once both have met
STOPPED = 75  # seconds
TRACES = ("it hangs", "Traceback", "stack trace", "Fatal Python error", "    @ ", "  File ")
BY_JAX = "JAX distributed service detected fatal errors"  # its own end where a host is lost
HARMS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGSTOP", "disk", "config", "text", "version")
WEIGHTS = (6, 3, 2, 2, 3, 1, 1, 1)


def trials(folder, seed):
    """Yields what each harm came to; the undisturbed run is made first."""
    rng, config, start = random.Random(seed), write_config(folder), time.monotonic()
    said = finish(start_two(config, folder / "whole", *ARGUMENTS), 10 * LIMIT)
    assert [code for code, _ in said] == [0, 0], said
    seconds, whole = time.monotonic() - start, result_of(folder / "whole")
    workdir = folder / "harmed"
    while True:
        (kind,), host = rng.choices(HARMS, WEIGHTS), rng.randrange(2)
        harm = f"{kind} for host {host}"
        if kind in ("config", "text", "version"):
            said, after = give_something_else(config, workdir, kind, host), 0.0
        else:
            harm += f" after {(moment := rng.uniform(0.1, 1) * seconds):.1f} s"
            said, after = do_harm(config, workdir, kind, host, moment)
        yield judge(harm, said, after, config, workdir, whole)
        shutil.rmtree(workdir, ignore_errors=True)


def result_of(workdir):
    """The losses of a run, and the fingerprints of its last parameters."""
    about = workdir / "checkpoints" / str(NUM_STEPS) / "about" / "metadata"
    return losses(workdir), json.loads(about.read_text())["fingerprints"]


def do_harm(config, workdir, kind, host, moment):
    """Starts both and harms one: what both said, and the seconds until both had ended."""
    processes = start_two(config, workdir, *ARGUMENTS)
    harmed = processes[host]
    try:
        time.sleep(moment)
        begun = time.monotonic()
        if kind != "disk":
            harmed.send_signal(getattr(signal, kind))
        elif harmed.poll() is None:
            resource.prlimit(harmed.pid, resource.RLIMIT_FSIZE, (100, 100))
        if kind == "SIGSTOP":
            time.sleep(STOPPED)
            begun = time.monotonic()  # the other one has ended long since, or does not end
            harmed.send_signal(signal.SIGCONT)
        return finish_in(processes, WAIT_SECONDS + 3 * LIMIT), time.monotonic() - begun
    finally:
        for process in processes:  # if Ctrl-C or the end of the time came meanwhile
            process.kill()


def finish_in(processes, seconds):
    """What both said; with exit code -9 if one takes too long."""
    try:
        return finish(processes, seconds)
    except subprocess.TimeoutExpired:  # they were killed
        return [(-9, f"{each.communicate()[1].decode()}\nit hangs") for each in processes]


def give_something_else(config, workdir, kind, host):
    """What both say if one has another configuration, other text or another program."""
    own, other = [NOTHING, NOTHING], workdir.with_name("other")
    if kind == "config":
        own[host] = (["--config.training.seed=7"], {})
    elif kind == "text":  # of one line more, at the path that both read, each where it runs
        shutil.copytree(config.parent / "corpus", other / "corpus")
        for language, line in (("en", "1 2 3"), ("de", "d c b")):
            with (other / "corpus" / f"train.{language}").open("a") as file:
                print(line, file=file)
        own = [((), {"cwd": config.parent})] * 2
        own[host] = ((), {"cwd": other})
        text = config.read_text().replace(str(config.parent), "/proc/self/cwd")
        config = config.with_name("here.py")
        config.write_text(text)
    else:
        shutil.copytree(ROOT / "transformer", other / "transformer")
        shutil.copy(ROOT / "train.py", other)
        with (other / "transformer" / "__init__.py").open("a") as file:
            file.write('__version__ += "+other"\n')
        own[host] = ((), {"script": other / "train.py"})
    try:
        return finish_in(start_two(config, workdir, *ARGUMENTS, own=own), 2 * LIMIT)
    finally:
        shutil.rmtree(other, ignore_errors=True)


def judge(harm, said, seconds, config, workdir, whole):
    """Says what became of a run: of what both hosts said, of the time, and of the next start."""
    answer = "; ".join(f"host {host} {end}" for host, end in enumerate(said))
    own = [text for code, text in said if code != -signal.SIGABRT or BY_JAX not in text]
    limit = LIMIT + WAIT_SECONDS * any("came within" in text for _, text in said)
    if seconds > limit or any(trace in text for text in own for trace in TRACES):
        return Trial(f"{harm}: ended after {seconds:.0f} s", Outcome.LOST, answer)
    if any(code not in (0, -9, -6, 2, 75, 130) for code, _ in said):
        return Trial(harm, Outcome.LOST, answer)
    is_input = harm.split()[0] in ("config", "text", "version")
    if is_input and not all(code == 2 and "he hosts " in text for code, text in said):
        return Trial(harm, Outcome.SILENT, answer)
    again = finish_in(start_two(config, workdir, *ARGUMENTS), 10 * LIMIT)
    if [code for code, _ in again] != [0, 0]:
        return Trial(harm, Outcome.LOST, f"{answer}; then {again}")
    if result_of(workdir) != whole:
        return Trial(harm, Outcome.SILENT, f"{answer}; then another result: {again}")
    return Trial(harm, Outcome.REFUSED if is_input else Outcome.SURVIVED, answer)
