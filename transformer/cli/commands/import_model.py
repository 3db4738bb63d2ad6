"""Makes a run of a model of another system: transformer-import FOLDER WORKDIR

FOLDER holds a model of Hugging Face (Marian as OPUS-MT, M2M100, NLLB, mBART-50, BERT, GPT-2, ViT)
or of Marian itself. WORKDIR is new, and then like what train.py writes: for eval.py, for
`Translator` and its like, and to fine-tune (--config=configs/fine_tune.py:WORKDIR). Nothing in
FOLDER is run.

    transformer-import opus-mt-en-de runs/opus
    transformer-import nllb-200-distilled-600M runs/nllb --source_language=eng_Latn \\
        --target_language=deu_Latn
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from transformer.cli.command_line import parse_flags_and_words
from transformer.cli.flags import flag
from transformer.cli.help_text import answers_information, help_text
from transformer.cli.process import run_guarded, run_process
from transformer.console import say
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class ImportFlags:
    """How the import command reads."""

    source_language: str = flag(
        "", "Language of the sources, as a model of many languages names it.", metavar="NAME"
    )
    target_language: str = flag("", "Language of the translations, likewise.", metavar="NAME")
    check: bool = flag(
        True, "Compare with the library transformers, where it is installed; --nocheck: not."
    )


def main(argv: Sequence[str]) -> int:
    """Imports as a command line asks; returns the exit code, or raises SystemExit with it."""
    return run_guarded(lambda: _import(argv))


def _import(argv: Sequence[str]) -> int:
    if answers_information(argv, lambda: help_text(__doc__, ImportFlags)):
        return DONE
    flags, words = parse_flags_and_words(ImportFlags, argv)
    if len(words) != 2:
        raise ValueError(f"expected transformer-import FOLDER WORKDIR, not {len(words)} names.")
    from transformer.interop.import_model import import_model  # late: it imports jax

    folder, workdir = words
    said = import_model(
        folder,
        workdir,
        source_language=flags.source_language,
        target_language=flags.target_language,
        check=flags.check,
    )
    for sentence in said:
        say(sentence)
    return DONE


def run() -> NoReturn:
    """Runs the command as this process."""
    run_process(main)


if __name__ == "__main__":
    run()
