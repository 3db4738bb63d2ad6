"""Trains the rows of an ablation and tabulates them: transformer-ablate --workdir=runs/table3

    transformer-ablate --config=configs/embedded_en_de.py --steps=300 --workdir=runs/table3
    transformer-ablate --config=… --table=my_rows.py --rows=base,wide --seeds=0,1,2 --workdir=…

--config (and --config.GROUP.NAME=VALUE) is the base, on whose corpus and with whose budget every
row is trained; --table is a Python file with ROWS = {NAME: {"group.setting": value, or function of
the base}}, as in configs/table3.py, the rows of the paper's Table 3. Each row is a run in a work
directory of its own below --workdir. The same command goes on with what is missing: finished rows
are only tabulated. The table is printed and written as table.md, table.json and report.html.
Exit codes: as train.py; if rows failed, that of the first of them, after the others were trained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from transformer.cli.command_line import CommandLine, run_command
from transformer.cli.config_files import REGISTER, explaining_errors, find_config, run_file
from transformer.cli.flags import check_flags, flag
from transformer.cli.hosts import HostFlags
from transformer.cli.process import run_process
from transformer.config import Config
from transformer.console import quantity, say
from transformer.evaluation.ablation_plan import Row, plan_rows, with_num_steps
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class AblateFlags(HostFlags):
    """What the ablate command is asked for, besides the base configuration."""

    workdir: str = flag(
        "runs/table3", "Folder of the table, with a work directory for each row.", "FOLDER"
    )
    table: str = flag(
        "configs/table3.py", "Python file with ROWS, or the name of a shipped one.", "FILE"
    )
    register: str = REGISTER
    rows: str = flag(
        "",
        "Rows to train, with commas between, instead of all; the others are compared with the "
        "first.",
        "NAMES",
    )
    seeds: str = flag(
        "",
        "Seeds to train each row with, with commas between: the table has mean and deviation.",
        "NUMBERS",
    )
    steps: int | None = flag(
        None,
        "Train the base for N steps: its warm-up, decay and periods are scaled along.",
        "N",
        at_least=1,
    )
    dry_run: bool = flag(False, "Show what each row changes, then stop.")

    @property
    def seed_list(self) -> list[int]:
        """The numbers of --seeds; raises ValueError if one is none."""
        words = [word.strip() for word in self.seeds.split(",")] if self.seeds else []
        for word in words:
            if not word.isdecimal():
                raise ValueError(
                    f"--seeds must be whole numbers with commas between, not '{word}'."
                )
        return [int(word) for word in dict.fromkeys(words)]


def main(argv: Sequence[str]) -> int:
    """Trains and tabulates as a command line asks; returns the exit code, or raises SystemExit.

    argv: the words of the command line, the first of them the program.
    """
    return run_command(_ablate, AblateFlags, argv, __doc__, has_config=True)


def _ablate(line: CommandLine[AblateFlags]) -> int:
    flags, base = line.flags, line.config
    check_flags(flags)
    seeds = flags.seed_list or [base.training.seed]
    rows = plan(flags, with_num_steps(base, flags.steps) if flags.steps else base)
    if flags.dry_run:
        return DONE
    from transformer.cli.run_ablation import run_ablation  # late: it imports jax

    return run_ablation(flags, flags.workdir, rows, seeds)


def plan(flags: AblateFlags, base: Config) -> list[Row]:
    """Returns the rows of --table that --rows names, and says what each changes."""
    path = find_config(flags.table, flag="table")
    with explaining_errors(path):
        module = run_file(path)
        variations = getattr(module, "ROWS", None)
        if not isinstance(variations, Mapping) or not variations:
            raise ValueError('it must define ROWS = {"name": {"group.setting": value}}.')
        names = [name.strip() for name in flags.rows.split(",")] if flags.rows else list(variations)
        published = getattr(module, "PUBLISHED", {})
        rows = plan_rows(base, variations, names, published=published, say=say)
    width = max(len(row.name) for row in rows)
    steps = base.training.num_train_steps
    say(f"{quantity(len(rows), 'row')} of {path}, on {base.data.corpus}, {steps:,} steps:")
    say("\n".join(f"  {row.name:<{width}}  {row.summary}" for row in rows))
    return rows


run = partial(run_process, main)

if __name__ == "__main__":
    run()
