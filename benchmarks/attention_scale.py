"""Shows what the scale 1/√d_k is for (paper, section 3.2.1), by learning to look something up.

python benchmarks/attention_scale.py
python benchmarks/attention_scale.py --attention=scaled_dot_product,general,additive

A row is a dictionary of 16 words, each with a value beside it; then 8 of the words are asked for. A
single layer of attention has to find each word and say its value, from the same seed and batches
for every attention. The model is as wide as its head, so that entries of queries and keys start
with deviation 1, as in the paper's argument: their product then deviates by √d_k, and without the
scale the softmax of a wide head picks one key at random and passes on no gradient.

"entropy" is that of the attention weights p before training, of at most log 16 = 2.77; "passes on"
the mean of 1 - Σp², the trace of the softmax's Jacobian: what it lets through of a gradient, of at
most 15/16; "half right" the step at which 10 batches were answered half right. The loss starts at
log 64 = 4.16.
"""

import argparse
import datetime

import jax
import numpy as np
import optax
from flax import linen as nn
from referee import describe_machine
from table import align

from transformer.model.attention import MultiHeadAttention

NUM_WORDS, NUM_VALUES, NUM_ENTRIES, NUM_QUESTIONS, NUM_ROWS = 64, 64, 16, 8, 32


class Dictionary(nn.Module):
    """Embeddings, one attention of one head, scores of the values."""

    attention: str
    width: int

    @nn.compact
    def __call__(self, words, values, questions):
        """words, values [B, S], questions [B, T] -> scores of values [B, T, V]."""

        init = nn.initializers.normal(1)
        word = nn.Embed(NUM_WORDS, self.width, embedding_init=init)
        value = nn.Embed(NUM_VALUES, self.width, embedding_init=init)
        entries = (word(words) + value(values)) * 0.5**0.5
        attention = MultiHeadAttention(
            self.width, 1, self.width, self.width, self.attention, name="attention"
        )
        keys_values = attention.keys_values(entries)
        found = attention(word(questions), keys_values, mask=None, deterministic=True)
        return nn.Dense(NUM_VALUES, name="scores")(found)


def draw(rng):
    """A batch: words, values [B, S], questions and their answers [B, T]."""
    shape = NUM_ROWS, NUM_WORDS
    words = rng.permuted(np.broadcast_to(np.arange(NUM_WORDS), shape), axis=1)[:, :NUM_ENTRIES]
    values = rng.integers(0, NUM_VALUES, words.shape)
    asked = rng.integers(0, NUM_ENTRIES, (NUM_ROWS, NUM_QUESTIONS))
    return words, values, *(np.take_along_axis(x, asked, 1) for x in (words, values))


def first_look(model, params, batch):
    """(entropy of the attention weights, trace of the softmax's Jacobian) before training."""
    _, sown = model.apply({"params": params}, *batch[:3], mutable="intermediates")
    weights = sown["intermediates"]["attention"]["weights"][0]  # [B, T, N, S]
    entropy = -jax.scipy.special.xlogy(weights, weights).sum(-1).mean()
    return float(entropy), float(1 - (weights**2).sum(-1).mean())


def train(attention, width, num_steps, learning_rate):
    """(entropy, trace, step that is half right or None, loss and accuracy of the last 10)."""
    model = Dictionary(attention, width)
    rng = np.random.default_rng(0)
    optimizer = optax.adam(learning_rate)

    def loss_fn(params, *batch):
        scores = model.apply({"params": params}, *batch[:3])
        right = scores.argmax(-1) == batch[3]
        losses = optax.softmax_cross_entropy_with_integer_labels(scores, batch[3])
        return losses.mean(), right.mean()

    @jax.jit
    def step(params, state, *batch):
        found, gradients = jax.value_and_grad(loss_fn, has_aux=True)(params, *batch)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, found

    batch = draw(rng)
    params = model.init(jax.random.key(0), *batch[:3])["params"]
    start = first_look(model, params, batch)
    state, curve = optimizer.init(params), []
    for _ in range(num_steps):
        params, state, found = step(params, state, *draw(rng))
        curve.append(found)
    losses, right = np.array(jax.device_get(curve)).T
    smooth = np.convolve(right, np.full(10, 0.1), "valid")
    half = int(np.argmax(smooth >= 0.5)) + 10 if (smooth >= 0.5).any() else None
    return *start, half, losses[-10:].mean(), right[-10:].mean()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--attention", default="scaled_dot_product,dot_product")
    parser.add_argument("--head_dims", default="16,64,256,512")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    return parser.parse_args()


def main():
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
