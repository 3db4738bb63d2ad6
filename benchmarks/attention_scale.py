"""Shows what the scale 1/√d_k is for (paper, section 3.2.1), with a lookup that has to be learnt.

python benchmarks/attention_scale.py
python benchmarks/attention_scale.py --attention=scaled_dot_product,general,additive

Each row has a dictionary of 16 words with a value each, and asks for the values of 8 of the words.
A single layer of attention has to find each word and give its value; every attention function has
the same seed and batches. The model is as wide as its head, so that the entries of queries and keys
start with standard deviation 1, as in the paper's argument: that of their products is then √d_k,
and without the scale the softmax of a wide head picks one key at random and passes on no gradient.

"entropy" is that of the attention weights p before training, at most log 16 = 2.77; "passes on" is
the mean of 1 - Σp², the trace of the softmax's Jacobian, which says how much of a gradient it lets
through, at most 15/16; "half right" is the first step at which half of the answers of the last 10
batches were right. The loss starts at log 64 = 4.16.

With heads of 512, all answers were right at the end with the scale, and 82 to 87% without it:
rounding, and so this figure, depends on the machine.
"""

import argparse
import datetime
from typing import Any

import jax
import numpy as np
import optax
from flax import linen as nn
from referee import describe_machine
from table import align

from transformer.config import ModelConfig
from transformer.model.attention import MultiHeadAttention

Array = np.ndarray | jax.Array
NUM_WORDS, NUM_VALUES, NUM_ENTRIES, NUM_QUESTIONS, NUM_ROWS = 64, 64, 16, 8, 32


class Dictionary(nn.Module):
    """Embeddings, one layer of attention with one head, and scores of the values."""

    attention: str
    width: int

    @nn.compact
    def __call__(self, words: Array, values: Array, questions: Array) -> jax.Array:
        """Returns scores of values [B, T, V] for words and values [B, S], questions [B, T]."""
        init = nn.initializers.normal(1)
        word = nn.Embed(NUM_WORDS, self.width, embedding_init=init)
        value = nn.Embed(NUM_VALUES, self.width, embedding_init=init)
        entries = (word(words) + value(values)) * 0.5**0.5
        attention = MultiHeadAttention(
            ModelConfig(d_model=self.width, num_heads=1), self.attention, name="attention"
        )
        keys_values = attention.project_keys_values(entries)
        found = attention(word(questions), keys_values, mask=None, deterministic=True)
        return nn.Dense(NUM_VALUES, name="scores")(found)


def draw(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draws a batch: words and values [B, S], questions and their answers [B, T]."""
    shape = NUM_ROWS, NUM_WORDS
    words = rng.permuted(np.broadcast_to(np.arange(NUM_WORDS), shape), axis=1)[:, :NUM_ENTRIES]
    values = rng.integers(0, NUM_VALUES, words.shape)
    asked = rng.integers(0, NUM_ENTRIES, (NUM_ROWS, NUM_QUESTIONS))
    return words, values, *(np.take_along_axis(x, asked, 1) for x in (words, values))


def describe_weights(
    model: Dictionary, params: Any, batch: tuple[np.ndarray, ...]
) -> tuple[float, float]:
    """Returns the entropy of the attention weights and the trace of the softmax's Jacobian."""
    _, sown = model.apply({"params": params}, *batch[:3], mutable="intermediates")
    weights = sown["intermediates"]["attention"]["weights"][0]  # [B, T, N, S]
    entropy = -jax.scipy.special.xlogy(weights, weights).sum(-1).mean()
    return float(entropy), float(1 - (weights**2).sum(-1).mean())


def train(attention: str, width: int, num_steps: int, learning_rate: float) -> tuple:
    """Returns (entropy, trace, step that is half right or None, last loss, last accuracy).

    The first two are of the beginning, the last two means over the last 10 steps.
    """
    model = Dictionary(attention, width)
    rng = np.random.default_rng(0)
    optimizer = optax.adam(learning_rate)

    def loss_fn(params: Any, *batch: Array) -> tuple[jax.Array, jax.Array]:
        scores = model.apply({"params": params}, *batch[:3])
        right = scores.argmax(-1) == batch[3]
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, batch[3])
        return losses.mean(), right.mean()

    @jax.jit
    def step(params: Any, state: Any, *batch: Array) -> tuple:
        found, gradients = jax.value_and_grad(loss_fn, has_aux=True)(params, *batch)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, found

    batch = draw(rng)
    params = model.init(jax.random.key(0), *batch[:3])["params"]
    start = describe_weights(model, params, batch)
    state, curve = optimizer.init(params), []
    for _ in range(num_steps):
        params, state, found = step(params, state, *draw(rng))
        curve.append(found)
    losses, right = np.array(jax.device_get(curve)).T
    smooth = np.convolve(right, np.full(10, 0.1), "valid")
    half = int(np.argmax(smooth >= 0.5)) + 10 if (smooth >= 0.5).any() else None
    return *start, half, losses[-10:].mean(), right[-10:].mean()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--attention", default="scaled_dot_product,dot_product")
    parser.add_argument("--head_dims", default="16,64,256,512")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    machine = describe_machine(jax.devices()[0].platform)
    print(f"{datetime.date.today()}, {machine}, jax {jax.__version__}")
    print(f"Adam at {arguments.learning_rate}, {arguments.steps} steps of {NUM_ROWS} rows; seed 0")
    rows = [
        ("head size, attention", "entropy", "passes on", "half right", "loss at the end", "right")
    ]
    for width in map(int, arguments.head_dims.split(",")):
        for attention in arguments.attention.split(","):
            found = train(attention, width, arguments.steps, arguments.learning_rate)
            entropy, trace, half, loss, right = found
            cells = f"{entropy:.3f}", f"{trace:.3f}", f"{half or 'never'}", f"{loss:.3f}"
            rows.append((f"{width:>3}  {attention}", *cells, f"{right:.1%}"))
    print(align(rows))


if __name__ == "__main__":
    main()
