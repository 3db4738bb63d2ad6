"""Prepares the training text of a run: transformer-prepare --config=configs/NAME.py

It tokenises the text with all cores and keeps the ids where train.py finds them, with the same
--config and --workdir: before accelerators are rented, for example. One that is stopped goes on
where it was. Several machines share the work if each prepares a part:

    transformer-prepare --config=configs/NAME.py --config.data.cache=/shared/folder --part=2/8
"""

import re
from dataclasses import dataclass

from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import CONFIG, REGISTER, CommonFlags, flag
from transformer.console import phase, say
from transformer.data.prepared.prepare import prepare_text
from transformer.exit_codes import DONE
from transformer.registry import task_kind
from transformer.workdir import WorkDir


@dataclass(frozen=True)
class PrepareFlags(CommonFlags):
    """What the prepare command is asked for, besides the configuration."""

    workdir: str = flag(
        "runs/embedded_en_de",
        "Work directory of the run, beside which the prepared corpus is kept.",
        "FOLDER",
    )
    config: str = CONFIG
    register: str = REGISTER
    part: str = flag(
        "", "Which part of the work this process does, as 2/8: the second of eight.", "K/N"
    )


def _prepare(line: CommandLine[PrepareFlags]) -> int:
    config, workdir = line.config, WorkDir(line.flags.workdir, writes=False)
    part = re.fullmatch(r"(\d+)/(\d+)", line.flags.part or "1/1")
    if not part or not 1 <= int(part[1]) <= int(part[2]):
        raise ValueError(f"--part must be K/N with K up to N, as 2/8, not '{line.flags.part}'.")
    if task_kind(config.task) != "translation":
        raise ValueError(f"Only the text of task=translation is prepared, not of {config.task}.")
    config = workdir.with_choices(config)
    if config.automatic_settings():
        with phase("importing JAX"):  # which knows the devices
            from transformer.training.automatic import choose_settings

        config = choose_settings(config).config.validate()
    prepared = prepare_text(config, workdir, int(part[1]) - 1, int(part[2]))
    others = (
        f"part {line.flags.part} is prepared and others are not; the process that ends last puts "
        f"them together, or this command does without --part"
    )
    say("\n".join(prepared) or others)
    return DONE


main = Command(_prepare, PrepareFlags, __doc__)

if __name__ == "__main__":
    main.run()
