"""Two processes of two fake devices each, as two hosts of a run."""

import socket

from tests.helpers.scripts import start
from tests.helpers.xla_flags import xla_flags

NOTHING = ((), {})


def free_port():
    """Returns a port that no process listens at now."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


def start_two(config, workdir, *arguments, own=(NOTHING, NOTHING)):
    """Both processes of a run; own: (arguments, options of `start`) of each host."""
    flags = [f"--config={config}", f"--workdir={workdir}", *arguments, "--num_processes=2"]
    flags += [f"--coordinator=localhost:{free_port()}"]
    env = {"env": {"XLA_FLAGS": xla_flags(2)}}
    return [
        start(
            options.pop("script", "train.py"), *flags, f"--process_id={i}", *words, **env, **options
        )
        for i, (words, options) in enumerate(own)
    ]
