"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME

Without flags it trains on the embedded English-German corpus. The same command resumes an
interrupted run exactly, and so does --workdir=runs/NAME alone, which takes the configuration that
is kept there; a finished run says so. On several hosts, start the same command on each.
Exit codes: 0 done, 2 wrong input, 3 loss or gradients not finite, 75 stopped by SIGTERM, the loss
of another host or a failed save on one of several, and resumable, 130 stopped by SIGINT, any other
an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from transformer.cli.command_line import parse_flags_and_config
from transformer.cli.config_files import REGISTER
from transformer.cli.flags import check_flags, flag
from transformer.cli.help_text import answers_information, config_text, help_with_config
from transformer.cli.hosts import HostFlags
from transformer.cli.process import run_guarded, run_process
from transformer.console import phase
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class TrainFlags(HostFlags):
    """What the train command is asked for, besides its configuration."""

    workdir: str = flag("runs/embedded_en_de", "Work directory of the run.", metavar="FOLDER")
    register: str = REGISTER
    dry_run: bool = flag(False, "Show parameters, memory and batch plan, then stop.")
    all_parameters: bool = flag(
        False, "List the parameters of each layer, not of all alike at once.", needs=("dry_run",)
    )
    topology: str = flag(
        "",
        "TPU slice to compile for, such as v5litepod-16 or v5e:4x4; it need not be attached.",
        metavar="NAME",
        needs=("dry_run",),
    )
    profile: str = flag(
        "",
        "Trace COUNT training steps, those after step STEP, into the folder `profile` of the run.",
        metavar="STEP:COUNT",
        excludes={"dry_run": "that trains no steps"},
    )
    profiler_port: int = flag(
        0,
        "Port of the first host at which xprof or TensorBoard may capture a profile at any time.",
        metavar="PORT",
        excludes={"dry_run": "that trains no steps"},
        at_least=1,
    )
    accept_changed_text: bool = flag(
        False,
        "Resume although the training text is not the one that the checkpoints were trained on.",
        excludes={"dry_run": "that trains no steps"},
    )
    print_config: bool = flag(False, "Print every setting as the run would have it, and stop.")


def main(argv: Sequence[str]) -> int:
    """Trains as a command line asks; returns the exit code, or raises SystemExit with it.

    argv: the words of the command line, the first of them the program.
    """
    return run_guarded(lambda: _train(argv))


def _train(argv: Sequence[str]) -> int:
    if answers_information(argv, lambda: help_with_config(__doc__, TrainFlags, argv)):
        return DONE
    flags, config = parse_flags_and_config(TrainFlags, argv)
    check_flags(flags)
    if flags.print_config:
        print(config_text(config), flush=True)
        return DONE
    # Imported here, as they import jax: --help and wrong flags need not wait for it.
    if flags.dry_run:
        with phase("importing JAX", is_logged=False):
            from transformer.cli.dry_run import describe_run

        return describe_run(config, flags.workdir, flags.topology, every_layer=flags.all_parameters)
    with phase("importing JAX", is_logged=False):
        from transformer.cli.run_training import run_training

    return run_training(
        flags,
        config,
        flags.workdir,
        flags.profile,
        flags.profiler_port,
        accept_changed_text=flags.accept_changed_text,
    )


def run() -> NoReturn:
    """Runs the command as this process."""
    run_process(main)


if __name__ == "__main__":
    run()
