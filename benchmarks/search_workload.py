"""What a search has to do: a model and sentences in a folder that every contestant can read.

`model.npz` holds the weights under the names of our parameters ("encoder/layer_0/…/kernel") and the
table of positions, `model.json` the fields of our ModelConfig and the vocabulary; `sentences.txt`
is one sentence a line; `tokenizer.model`, if there is one, is SentencePiece's, else a sentence is
pieces with spaces between.
"""

import json
import pathlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SearchWorkload:
    """Sentences to translate, by which model and where."""

    name: str
    folder: str
    workdir: str = ""  # the run that the model is of; none: random weights
    device: str = "cpu"  # or "gpu"
    dtype: str = "float32"  # of the computation, or "bfloat16"
    num_threads: int = 2  # of a CPU
    batch_size: int = 0  # sentences that ours searches at once; 0: the run's

    @property
    def is_text(self):
        """Whether sentences are text for SentencePiece."""
        return (pathlib.Path(self.folder) / "tokenizer.model").exists()

    def sentences(self):
        """One string a sentence."""
        path = pathlib.Path(self.folder) / "sentences.txt"
        return path.read_text(encoding="utf-8").split("\n")[:-1]

    def model(self):
        """(fields of ModelConfig, {name: array}, vocabulary)"""
        folder = pathlib.Path(self.folder)
        described = json.loads((folder / "model.json").read_text())
        return described["model"], dict(np.load(folder / "model.npz")), described["vocabulary"]


def write_folder(folder, model, weights, vocabulary, sentences, tokenizer=None):
    """Writes what a `SearchWorkload` reads; tokenizer: the bytes of SentencePiece's model."""
    folder = pathlib.Path(folder)
    np.savez(folder / "model.npz", **weights)
    (folder / "model.json").write_text(json.dumps({"model": model, "vocabulary": vocabulary}))
    text = "".join(f"{sentence}\n" for sentence in sentences)
    (folder / "sentences.txt").write_text(text, encoding="utf-8")
    if tokenizer:
        (folder / "tokenizer.model").write_bytes(tokenizer)
