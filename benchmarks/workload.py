"""The work of a training step: the sizes of the model, and a batch."""

from dataclasses import dataclass

import numpy as np

NUM_SPECIAL = 4  # smaller ids are special tokens; 0 is padding


@dataclass(frozen=True)
class Workload:
    """A model of the paper's Table 3 and a batch of sentences [B, S] and [B, T] without padding."""

    name: str
    num_layers: int  # in the encoder, and in the decoder
    d_model: int
    d_ff: int
    num_heads: int
    vocab_size: int  # one table for source, target and softmax
    num_sentences: int  # B
    source_length: int  # S
    target_length: int  # T
    device: str = "cpu"  # or "gpu", "tpu"
    dtype: str = "float32"  # or "bfloat16"; the computation's
    num_threads: int = 2  # on a CPU
    dropout_rate: float = 0.1
    label_smoothing: float = 0.1
    paper_dropout: bool = False  # only after sub-layers and embeddings, where that can be set

    @property
    def target_tokens(self) -> int:
        """Target tokens in a step."""
        return self.num_sentences * self.target_length

    def ids(self) -> tuple[np.ndarray, ...]:
        """Returns random inputs [B, S] and targets [B, T], int32, the same for every contestant."""
        rng = np.random.default_rng(0)
        return tuple(
            rng.integers(NUM_SPECIAL, self.vocab_size, (self.num_sentences, length), np.int32)
            for length in (self.source_length, self.target_length)
        )


SMALL = {"num_layers": 1, "d_model": 32, "d_ff": 64, "num_heads": 2}  # to try a program out
TINY = {"num_layers": 4, "d_model": 128, "d_ff": 512, "num_heads": 4}
BASE = {"num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8}
BIG = {"num_layers": 6, "d_model": 1024, "d_ff": 4096, "num_heads": 16}
# Of the published OPUS-MT models.
OPUS = BASE | {"activation": "swish", "projection_bias": True, "output_bias": True}
CPU = {"num_sentences": 64, "source_length": 32, "target_length": 32}
# The paper's 25,000 target tokens, here 96 rows of 256, and its vocabulary.
GPU = {"num_sentences": 768, "source_length": 32, "target_length": 32, "vocab_size": 37_000}
GPU |= {"device": "gpu", "dtype": "bfloat16"}

WORKLOADS = {
    "cpu": [
        Workload("tiny", **TINY, **CPU, vocab_size=4_000),
        Workload("base", **BASE, **CPU, vocab_size=8_000),
    ],
    "gpu": [Workload("base", **BASE, **GPU), Workload("big", **BIG, **GPU)],
}


def sinusoids(length: int, d_model: int) -> np.ndarray:
    """Returns the paper's position vectors [T, D], float32, sines and cosines alternating."""
    frequencies = 10_000.0 ** -(np.arange(0, d_model, 2) / d_model)
    angles = np.arange(length)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, d_model).astype("f4")
