"""Exports a checkpoint: transformer-export WORKDIR FOLDER [CHECKPOINT] [--format=…]

FOLDER is new, and what is in it depends on the format:
  run          a work directory in bfloat16, a sixth of a training checkpoint: half the bytes of the
               parameters, and no optimizer; for eval.py, for `Translator.from_checkpoint` and to
               start other runs from (--config.training.init_from=FOLDER)
  huggingface  a model and a tokenizer for the library transformers: MarianMT, BERT or GPT-2
  ctranslate2  a model for CTranslate2, with --quantization=int8 for fast translation on CPUs
  safetensors  the parameters as named arrays
  program      the search by jax.export, which runs with JAX and flatbuffers
FOLDER/README.md of all but the first says how to use it. CHECKPOINT is as eval.py's --checkpoints
takes it. A run with an attention function or a task of one's own needs --register=FILE, as for
eval.py.
"""

from dataclasses import dataclass

import transformer
from transformer.cli.command_line import Command, CommandLine
from transformer.cli.flags import REGISTER, CommonFlags, flag
from transformer.console import say
from transformer.exit_codes import DONE


@dataclass(frozen=True)
class ExportFlags(CommonFlags):
    """How the export command writes."""

    format: str = flag(
        "run",
        "What is written.",
        choices=("run", "huggingface", "ctranslate2", "safetensors", "program"),
    )
    quantization: str = flag(
        "",
        "Number format of the matrices of CTranslate2: int8, int8_float16, int8_bfloat16, int16, "
        "float16, bfloat16.",
        "TYPE",
    )
    check: bool = flag(
        True, "Translate random text by both sides, if the other is installed; --nocheck: do not."
    )
    register: str = REGISTER


def _export(line: CommandLine[ExportFlags]) -> int:
    workdir, folder, checkpoint = [*line.words, "default"][:3]
    options = line.flags.given("format", "quantization", "check")
    for sentence in transformer.export_model(workdir, folder, checkpoint=checkpoint, **options):
        say(sentence)
    return DONE


main = Command(_export, ExportFlags, __doc__, ("WORKDIR", "FOLDER", "[CHECKPOINT]"))

if __name__ == "__main__":
    main.run()
