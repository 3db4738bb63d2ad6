"""Flags by which the hosts of a run find each other."""

import os
from dataclasses import dataclass
from functools import partial

from transformer.cli.flags import flag
from transformer.cli.lost_host import end_when_a_host_is_lost
from transformer.console import be_quiet, say
from transformer.signals import RESUMABLE


@dataclass(frozen=True)
class HostFlags:
    """How one of several processes finds the others; none is needed where JAX knows the cluster."""

    coordinator: str = flag(
        "",
        "Address of process 0; not needed on TPU slices, Slurm and Open MPI.",
        metavar="HOST:PORT",
    )
    num_processes: int = flag(0, "Number of processes in all; 0: not given.", metavar="N")
    process_id: int = flag(-1, "Index of this process, from 0; -1: not given.", metavar="N")
    wait_seconds: int = flag(
        300, "Time to wait for the other processes to start.", metavar="SECONDS"
    )


def connect_hosts(flags: HostFlags) -> bool:
    """Joins the other hosts, if any; returns whether this is the first, which alone speaks.

    The process ends with the exit code RESUMABLE if the others do not start in time, and where one
    is lost. Raises ValueError if they run different programs.
    """
    import jax  # late: the flags do not need it

    from transformer.parallel import hosts

    is_first = hosts.connect(
        flags.coordinator,
        flags.num_processes,
        flags.process_id,
        wait_seconds=flags.wait_seconds,
        say=say,
        on_timeout=partial(os._exit, RESUMABLE),  # JAX waits in C++, where no exception reaches
    )
    if not is_first:
        be_quiet()
    if jax.process_count() > 1:
        end_when_a_host_is_lost()
        hosts.check_same_program()
    return is_first
