"""Makes a run of a model of another system: transformer-import FOLDER WORKDIR

FOLDER holds a model of Hugging Face (Marian as OPUS-MT, M2M100, NLLB, mBART-50, BERT, GPT-2, ViT)
or of Marian itself. WORKDIR is new, and then like what train.py writes: for eval.py, for
`Translator` and its like, and to fine-tune (--config=configs/fine_tune.py:WORKDIR). Nothing in
FOLDER is run.

    transformer-import opus-mt-en-de runs/opus
    transformer-import nllb-200-distilled-600M runs/nllb --source_language=eng_Latn \\
        --target_language=deu_Latn
"""

from dataclasses import dataclass

import transformer
from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import CommonFlags, flag
from transformer.console import say
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class ImportFlags(CommonFlags):
    """How the import command reads."""

    source_language: str = flag(
        "", "Language of the sources, as a model of many languages names it.", "NAME"
    )
    target_language: str = flag("", "Language of the translations, likewise.", "NAME")
    check: bool = flag(
        True, "Compare with the library transformers, where it is installed; --nocheck: not."
    )


def _import(line: CommandLine[ImportFlags]) -> int:
    options = line.flags.given("source_language", "target_language", "check")
    for sentence in transformer.import_model(*line.words, **options):
        say(sentence)
    return DONE


main = Command(_import, ImportFlags, __doc__, ("FOLDER", "WORKDIR"))

if __name__ == "__main__":
    main.run()
