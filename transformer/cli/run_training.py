"""The train command: joins the other hosts and trains."""

from transformer.cli import compile_cache
from transformer.cli.hosts import HostFlags, connect_hosts
from transformer.config import Config
from transformer.console import say
from transformer.training.next_commands import this_command
from transformer.training.run import train


def run_training(flags: HostFlags, config: Config, path: str) -> int:
    """Trains a run in the work directory `path`; returns the exit code. config: a valid one."""
    compile_cache.turn_on(say)
    connect_hosts(flags)
    return train(config, path, resume_command=this_command()).exit_code
