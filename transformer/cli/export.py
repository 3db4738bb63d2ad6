"""One checkpoint in bfloat16: python -m transformer.cli.export WORKDIR FOLDER [CHECKPOINT]

A sixth of what a training checkpoint takes: half the bytes of the parameters, and no optimizer.
FOLDER is again a work directory, for eval.py, for `Translator.from_checkpoint` and to start other
runs from (--config.training.init_from=FOLDER). CHECKPOINT is as eval.py's --checkpoints takes it.
"""

import sys

from transformer.checkpoint.export import export
from transformer.cli.flags import main_of_module
from transformer.console import say


def run():
    """Runs it as a script."""
    main_of_module(lambda: say(export(*sys.argv[1:])), __doc__, range(2, 4))


if __name__ == "__main__":
    run()
