"""Flags by which the hosts of a run find each other."""

import os
import threading
from contextlib import nullcontext
from dataclasses import dataclass

import transformer
from transformer.cli.flags import CommonFlags, flag
from transformer.config import ModelConfig
from transformer.console import be_quiet, phase, say
from transformer.data.workers import num_cores
from transformer.exit_codes import RESUMABLE

MARGIN = 30  # seconds after which JAX gives up later than we do


@dataclass(frozen=True)
class HostFlags(CommonFlags):
    """How one of several processes finds the others; none is needed where JAX knows the cluster."""

    coordinator: str = flag(
        "", "Address of process 0; not needed on TPU slices, Slurm and Open MPI.", "HOST:PORT"
    )
    num_processes: int = flag(0, "Number of processes in all; 0: not given.", "N")
    process_id: int = flag(-1, "Index of this process, from 0; -1: not given.", "N")


def connect_hosts(flags: HostFlags, small: ModelConfig | None = None) -> bool:
    """Turns the cache of compiled programs on and joins the other hosts, if there are any.

    small: a model of which each core of a CPU computes one of its own, if it is small enough.
    Returns whether this is the first, which alone speaks. The process ends with the exit code
    RESUMABLE if the others do not start in time. Raises ValueError if they run different programs.
    """
    import jax  # late: wrong flags need not wait for it

    from transformer.model import costs
    from transformer.parallel import compile_cache, devices, hosts

    compile_cache.turn_on(say)
    if small and costs.fits_a_core(small):
        devices.use_cores_as_devices(num_cores())
    who = "all other hosts"
    if flags.coordinator:
        who = f"all of {flags.num_processes} hosts at {flags.coordinator}"

    def give_up() -> None:  # in a thread, as JAX waits in C++ and would abort the process
        say(
            f"error: not {who} came within {hosts.WAIT_SECONDS} s; start the same command on every "
            f"host, and see that they reach each other.",
            on_every_host=True,
        )
        os._exit(RESUMABLE)

    timer = threading.Timer(hosts.WAIT_SECONDS, give_up)
    timer.daemon = True
    timer.start()
    try:
        with phase(f"waiting for {who}") if flags.coordinator else nullcontext():
            given = flags.coordinator, flags.num_processes, flags.process_id
            is_first = hosts.connect(*given, wait_seconds=hosts.WAIT_SECONDS + MARGIN)
    finally:
        timer.cancel()
    if not is_first:
        be_quiet()
    versions = f"{transformer.__version__} {jax.__version__}"
    hosts.check_same("their versions of this package or of JAX", versions.encode)
    return is_first
