"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME

Without flags it trains on the embedded English-German corpus. The same command resumes an
interrupted run exactly, and so does --workdir=runs/NAME alone, which takes the configuration that
is kept there; a finished run says so. On several hosts, start the same command on each.
Exit codes: 0 done, 2 wrong input, 3 loss or gradients not finite, 75 stopped by SIGTERM, the loss
of another host or a failed save on one of several, and resumable, 130 stopped by SIGINT, any other
an error.
"""

from dataclasses import dataclass

import transformer
from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import CONFIG, REGISTER, HostFlags, flag
from transformer.cli.process import connect_hosts
from transformer.console import phase
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class TrainFlags(HostFlags):
    """What the train command is asked for, besides its configuration."""

    workdir: str = flag("runs/embedded_en_de", "Work directory of the run.", "FOLDER")
    config: str = CONFIG
    register: str = REGISTER
    dry_run: bool = flag(False, "Show parameters, memory and batch plan, then stop.")
    topology: str = flag(
        "",
        "TPU slice to compile for, such as v5litepod-16 or v5e:4x4; it need not be attached.",
        "NAME",
        needs=("dry_run",),
    )
    profile: str = flag(
        "",
        "Trace COUNT training steps, those after step STEP, into the folder `profile` of the run.",
        "STEP:COUNT",
        excludes=("dry_run",),
    )
    profiler_port: int = flag(
        0,
        "Port of the first host at which xprof or TensorBoard may capture a profile at any time.",
        "PORT",
        excludes=("dry_run",),
        at_least=1,
    )
    accept_changed_text: bool = flag(
        False,
        "Resume although the training text is not the one that the checkpoints were trained on.",
        excludes=("dry_run",),
    )
    print_config: bool = flag(False, "Print every setting as the run would have it, and stop.")


def _train(line: CommandLine[TrainFlags]) -> int:
    flags, config = line.flags, line.config
    flags.validate()
    if flags.print_config:
        print(config.to_python(), flush=True)
        return DONE
    with phase("importing JAX"):  # late: --help and wrong flags need not wait
        from transformer.training.profile import serve_profiles
        from transformer.training.startup_summary import describe_run

    if flags.dry_run:
        return describe_run(config, flags.workdir, flags.topology)
    is_first = connect_hosts(flags)
    if flags.profiler_port and is_first:
        serve_profiles(flags.profiler_port)
    options = flags.given("profile", "accept_changed_text")
    return transformer.train(config, flags.workdir, **options).exit_code


main = Command(_train, TrainFlags, __doc__)

if __name__ == "__main__":
    main.run()
