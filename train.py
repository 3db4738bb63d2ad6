"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME"""

from transformer.cli.train import run

if __name__ == "__main__":
    run()
