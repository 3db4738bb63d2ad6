"""Position encodings on texts longer than those of the training: nats per character by length.

Trains a small causal language model of the characters of tiny Shakespeare with each encoding, in
windows of 64, and scores the last tenth in windows of 64, 128, 256 and 512. A run in --workdir that
is finished is not trained again, so that the encodings can be divided among several calls; the
table and the picture show all runs that are there.

    python benchmarks/extrapolation.py --workdir=runs/extrapolation --picture=docs/extrapolation.png
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

import transformer
from transformer.cli.config_files import find_config, load_config_file
from transformer.config import Config
from transformer.evaluation.loss import evaluate_loss
from transformer.tasks.language_model import LanguageModelTask

ENCODINGS = "learned", "sinusoidal", "none", "rotary", "relative", "t5", "alibi"
LENGTHS = 64, 128, 256, 512
SCORES = "by_length.json"


def make_config(encoding: str, corpus: str, num_steps: int, seed: int) -> Config:
    """Returns configs/shakespeare.py with another position encoding and number of steps."""
    changes = {
        "model.positions": encoding,
        "data.corpus": corpus,
        "optimizer.decay_steps": num_steps,
        "training.num_train_steps": num_steps,
        "training.eval_every": num_steps,
        "training.checkpoint_every": num_steps,
        "training.seed": seed,
    }
    return load_config_file(find_config("configs/shakespeare.py")).with_values(changes)


def score_by_length(workdir: Path) -> dict[int, float]:
    """Returns the nats per character of a run's test split, for each length of the windows."""
    restored = transformer.restore(workdir)
    config, tokenizer = restored.config, restored.tokenizers[0]
    lines = LanguageModelTask.load_split(config, config.data.test_split).lines
    scores = {}
    for length in LENGTHS:
        config.data.row_length = length
        config.training.batch_tokens = 16 * max(LENGTHS)
        batches = LanguageModelTask.make_evaluation_batches(config, tokenizer, lines)
        result = evaluate_loss(restored, batches, "test", "character")
        scores[length] = result.scores["loss"].value
    return scores


def draw(scores: dict[str, dict[str, float]], picture: Path) -> None:
    """Draws a curve for each encoding into a PNG file."""
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    axes = figure.subplots()
    for encoding, by_length in scores.items():
        axes.plot([*map(int, by_length)], [*by_length.values()], marker="o", label=encoding)
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, map(str, LENGTHS))
    lowest = min(min(by_length.values()) for by_length in scores.values())
    axes.set_ylim(lowest - 0.05, lowest + 1.2)
    axes.set(xlabel="characters in a window (trained with 64)", ylabel="nats per character")
    axes.legend(fontsize="small")
    figure.savefig(picture, dpi=90)


def main() -> None:
    """Parses the flags, trains what is missing, and prints the table."""
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    flags.add_argument("--workdir", type=Path, required=True)
    flags.add_argument("--corpus", default="data/tinyshakespeare/input.txt.gz")
    flags.add_argument("--encodings", default=",".join(ENCODINGS))
    flags.add_argument("--num_steps", type=int, default=2000)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--picture", type=Path)
    arguments = flags.parse_args()
    for encoding in arguments.encodings.split(","):
        workdir = arguments.workdir / encoding
        config = make_config(encoding, arguments.corpus, arguments.num_steps, arguments.seed)
        if not (workdir / SCORES).exists():
            transformer.train(config, workdir)
            (workdir / SCORES).write_text(json.dumps(score_by_length(workdir)))
    files = {encoding: arguments.workdir / encoding / SCORES for encoding in ENCODINGS}
    scores = {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}
    print("| positions |", *(f"{length} |" for length in LENGTHS))
    print("|---|", *("---|" for _ in LENGTHS))
    for encoding, by_length in scores.items():
        print(f"| `{encoding}` |", *(f"{value:.3f} |" for value in by_length.values()))
    if arguments.picture:
        draw(scores, arguments.picture)


if __name__ == "__main__":
    main()
