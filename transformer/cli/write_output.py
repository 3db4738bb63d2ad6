"""Runs the job of `eval.py --input` for any task, and says what a person should know of it."""

from transformer.cli.process import exit_process
from transformer.console import ask_for_lines, quantity, say
from transformer.exit_codes import DONE
from transformer.inference.file_job import FileJob, ModelT
from transformer.inference.run_job import run_job
from transformer.parallel import hosts
from transformer.training.next_commands import this_command


def write_output(model: ModelT, job: FileJob[ModelT], asked_for: str) -> None:
    """Runs a job to its end; ends the process if a signal stops it.

    asked_for: what a person at a terminal is to type line by line, as "a sentence".
    """
    if job.input == "-":
        ask_for_lines(asked_for)
    code = run_job(model, job, say=say, command=this_command())
    if code != DONE:
        exit_process(code)


def say_cut(num_cut: int, line: str, cut: str) -> None:
    """Warns of lines of which something is lost, on all hosts together, if there are any.

    line: what one is called: "sentence".
    """
    total = sum(map(int, hosts.gather_from_hosts(str(num_cut).encode())))
    if total:
        say(f"warning: {quantity(total, line)} {cut}")
