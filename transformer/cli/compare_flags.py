"""The flags of a comparison of runs, which the evaluate command takes."""

from dataclasses import dataclass

from transformer.cli.flags import flag, split_runs


@dataclass(frozen=True)
class CompareFlags:
    """The runs that --workdir is compared with."""

    compare: str = flag(
        "",
        "Work directories of runs, with commas between, to compare with this one on its test set.",
        metavar="FOLDERS",
        tasks=("translation",),
        excludes={
            "input": "runs are compared on a test set, which has references",
            "attention": "runs are compared on a test set",
        },
        unless="reference",
    )
    compare_checkpoint: str | None = flag(
        None,
        "Checkpoint of the runs to compare with; or one for each of them, with commas between.",
        metavar="NAMES",
        tasks=("translation",),
        needs=("compare",),
    )

    @property
    def compared(self) -> list[tuple[str, str]]:
        """(work directory, checkpoint) of each run of --compare.

        Raises ValueError if there are neither one nor as many checkpoints as runs.
        """
        paths = split_runs(self.compare) if self.compare else []
        names = (self.compare_checkpoint or "default").split(",")
        if len(names) not in (1, len(paths)):
            raise ValueError(
                f"--compare_checkpoint must name one checkpoint, or one for each of the "
                f"{len(paths)} runs of --compare, not {len(names)}."
            )
        return list(zip(paths, names * len(paths) if len(names) == 1 else names, strict=True))
