"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME"""

from transformer.parallel.stopping import end_on_signals

if __name__ == "__main__":
    end_on_signals()  # before the seconds of importing
    from transformer.cli.commands.train import main

    main.run()
