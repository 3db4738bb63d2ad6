"""Runs the job of `eval.py --input` for any task, and says what a person should know of it."""

from collections.abc import Callable

from transformer.cli.process import exit_process
from transformer.console import ask_for_lines, quantity, say
from transformer.parallel import hosts
from transformer.parallel.stopping import Interruption, exit_code_of
from transformer.training.next_commands import this_command


def write_output(job: Callable[[], None], input: str, output: str, asked_for: str) -> None:
    """Runs a job to its end; ends the process if a signal stops it.

    asked_for: what a person at a terminal is to type line by line, as "a sentence".
    """
    if input == "-":
        ask_for_lines(asked_for)
    try:
        job()
    except Interruption as interruption:
        kept = f"; finished chunks are kept; resume with: {this_command()}" if output else ""
        say(f"stopped{kept}")
        exit_process(exit_code_of(interruption.number))


def say_cut(num_cut: int, line: str, cut: str) -> None:
    """Warns of lines of which something is lost, on all hosts together, if there are any.

    line: what one is called: "sentence".
    """
    total = sum(map(int, hosts.gather_from_hosts(str(num_cut).encode())))
    if total:
        say(f"warning: {quantity(total, line)} {cut}")
