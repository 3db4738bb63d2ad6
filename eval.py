"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME"""

from transformer.parallel.stopping import end_on_signals

if __name__ == "__main__":
    end_on_signals()  # before the seconds of importing
    from transformer.cli.commands.evaluate import main

    main.run()
