"""The work of a search: a model and sentences in a folder that every contestant can read.

`model.npz` holds the weights under the names of our parameters ("encoder/layer_0/…/kernel") and the
table of positions, `model.json` the fields of our ModelConfig and the vocabulary, `sentences.txt` a
sentence per line. `tokenizer.model` is SentencePiece's; without it, a sentence is tokens separated
by spaces.
"""

import json
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np

EXTRA = 50  # tokens that other systems' translations may have beyond those of the longest source


@dataclass(frozen=True)
class SearchWorkload:
    """Sentences to translate, and the model to translate them with."""

    name: str
    folder: str
    workdir: str = ""  # the run of the model; empty: random weights
    device: str = "cpu"  # or "gpu"
    dtype: str = "float32"  # or "bfloat16"; the computation's
    num_threads: int = 2  # on a CPU
    batch_size: int = 0  # sentences that our search has in a batch; 0: the run's

    @property
    def is_text(self) -> bool:
        """Whether sentences are text for SentencePiece."""
        return (pathlib.Path(self.folder) / "tokenizer.model").exists()

    def sentences(self) -> list[str]:
        """Reads the sentences."""
        path = pathlib.Path(self.folder) / "sentences.txt"
        return path.read_text(encoding="utf-8").split("\n")[:-1]

    def model(self) -> tuple[dict[str, Any], dict[str, np.ndarray], list[str]]:
        """Reads the fields of ModelConfig, the weights {name: array} and the vocabulary."""
        folder = pathlib.Path(self.folder)
        described = json.loads((folder / "model.json").read_text())
        return described["model"], dict(np.load(folder / "model.npz")), described["vocabulary"]


def write_folder(
    path: str,
    model: dict[str, Any],
    weights: dict[str, np.ndarray],
    vocabulary: list[str],
    sentences: list[str],
    tokenizer: bytes | None = None,
) -> None:
    """Writes the folder of a `SearchWorkload`; tokenizer: SentencePiece's model."""
    folder = pathlib.Path(path)
    np.savez(folder / "model.npz", **weights)
    (folder / "model.json").write_text(json.dumps({"model": model, "vocabulary": vocabulary}))
    text = "".join(f"{sentence}\n" for sentence in sentences)
    (folder / "sentences.txt").write_text(text, encoding="utf-8")
    if tokenizer:
        (folder / "tokenizer.model").write_bytes(tokenizer)
