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

from dataclasses import dataclass

from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import CONFIG, REGISTER, HostFlags, flag
from transformer.cli.process import connect_hosts
from transformer.config.python_files import find_config
from transformer.console import print_results, quantity, say
from transformer.evaluation.ablation_plan import read_rows, with_num_steps
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
    config: str = CONFIG
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


def _ablate(line: CommandLine[AblateFlags]) -> int:
    flags, base = line.flags, line.config
    flags.validate()
    for word in (seeds := _split(flags.seeds)):
        if not word.isdecimal():
            raise ValueError(f"--seeds must be whole numbers with commas between, not '{word}'.")
    base = with_num_steps(base, flags.steps) if flags.steps else base
    path, num_steps = find_config(flags.table, flag="table"), base.training.num_train_steps
    rows = read_rows(path, base, _split(flags.rows))
    say(f"{quantity(len(rows), 'row')} of {path}, on {base.data.corpus}, {num_steps:,} steps:")
    say("\n".join(f"  {row.name:<12}  {row.summary}" for row in rows))
    if flags.dry_run:
        return DONE
    from transformer.training.ablation import ablate  # late: it imports jax

    connect_hosts(flags)
    numbers = [int(word) for word in seeds] or [base.training.seed]
    table, code = ablate(rows, numbers, flags.workdir)
    if table:
        print_results(["", *table.lines()])
    return code


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(","))) if text else []


main = Command(_ablate, AblateFlags, __doc__)

if __name__ == "__main__":
    main.run()
