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
from transformer.config import Config
from transformer.console import phase, say
from transformer.data.corpora.cleaning import length_warnings
from transformer.data.corpora.training_text import TrainingText
from transformer.data.prepared.prepare import Share, cache_folder, training_corpus
from transformer.data.tokenizers.files import load_tokenizers, vocabulary_of
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
    flags, config = line.flags, line.config
    share, workdir = _parse_part(flags.part), WorkDir(flags.workdir, writes=False)
    if task_kind(config.task) != "translation":
        raise ValueError(f"Only the text of task=translation is prepared, not of {config.task}.")
    config = _completed(config, workdir)
    source = vocabulary_of(workdir, config.training.init_from)
    tokenizers = load_tokenizers(source.path) if source else None
    cache = cache_folder(config.data, workdir.path)
    text = TrainingText(config.data)
    evaluation = text.evaluation  # read first, so that a missing split is reported before the work
    _, corpus = training_corpus(config, text, cache, tokenizers, share)
    if corpus is None:
        say(
            f"part {flags.part} is prepared and others are not; the process that ends last puts "
            f"them together, or this command does without --part"
        )
    else:
        reasons = [f"{count:,} of {reason}" for reason, count in corpus.left_out.items()]
        say(f"{len(corpus.source):,} training pairs; left out: {', '.join(reasons) or 'none'}")
        warnings = length_warnings(corpus.left_out, len(corpus.source))
        warnings += [overlap] if (overlap := corpus.overlap_with(evaluation)) else []
        for warning in warnings:
            say(f"warning: {warning}")
    return DONE


def _completed(config: Config, workdir: WorkDir) -> Config:
    """Returns the configuration with the settings that a new run chooses by itself."""
    config = workdir.with_choices(config)
    if not config.automatic_settings():
        return config
    with phase("importing JAX"):  # which knows the devices
        from transformer.training.automatic import choose_settings

    return choose_settings(config).config.validate()


def _parse_part(text: str) -> Share:
    """Returns the share of the work that --part names; raises ValueError if it names none."""
    if not text:
        return Share(waits=False)
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--part must be K/N with K from 1 to N, as 2/8, not '{text}'.")
    return Share(int(match[1]) - 1, int(match[2]), waits=False)


main = Command(_prepare, PrepareFlags, __doc__)

if __name__ == "__main__":
    main.run()
