"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME"""

from transformer.cli.evaluate import run

if __name__ == "__main__":
    run()
