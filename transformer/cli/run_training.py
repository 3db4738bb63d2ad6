"""The train command: joins the other hosts and trains."""

from transformer.cli.hosts import HostFlags, connect_hosts
from transformer.config import Config
from transformer.console import say
from transformer.parallel import compile_cache
from transformer.training.next_commands import this_command
from transformer.training.profile import serve_profiles
from transformer.training.run import train


def run_training(
    flags: HostFlags,
    config: Config,
    path: str,
    profile: str = "",
    profiler_port: int = 0,
    *,
    accept_changed_text: bool = False,
) -> int:
    """Trains a run in the work directory `path`; returns the exit code.

    config: a valid one. profile, accept_changed_text: as of `train`. profiler_port: where the first
    host lets profiles be captured; 0: nowhere.
    """
    compile_cache.turn_on(say)
    is_first = connect_hosts(flags)
    if profiler_port and is_first:
        serve_profiles(profiler_port)
    return train(
        config,
        path,
        profile=profile,
        resume_command=this_command(),
        accept_changed_text=accept_changed_text,
    ).exit_code
