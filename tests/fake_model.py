"""A fake model for the tests of search, its score of given ids, and what they all need."""

import jax.numpy as jnp
import numpy as np

from transformer.decoding import Rules, make_length_penalty

BOS, EOS, V, K = 1, 2, 4, 8


class FakeModel:
    """A recurrent network over [B, W] whose state is the cache: a beam mixed up shows at once."""

    def __init__(self, num_sentences, vocab_size=V, seed=0):
        rng = np.random.default_rng(seed)
        self.start = rng.normal(size=(num_sentences, K)).astype(np.float32)
        self.recurrent = rng.normal(size=(K, K)).astype(np.float32)
        self.pieces = rng.normal(size=(vocab_size, K)).astype(np.float32)
        self.output = rng.normal(size=(K, vocab_size)).astype(np.float32)

    def cache(self, width):
        return jnp.repeat(self.start[:, None], width, axis=1)

    def step_fn(self, tokens, cache, position):
        state = jnp.tanh(cache @ self.recurrent + jnp.asarray(self.pieces)[tokens])
        return state @ self.output, state

    def logits(self, sentence, ids):
        """The scores of the piece after BOS and `ids`, in numpy."""
        state = self.start[sentence]
        for piece in (BOS, *ids):
            state = np.tanh(state @ self.recurrent + self.pieces[piece])
        return state @ self.output

    def log_prob(self, sentence, ids):
        """log p of ids, teacher-forced, in numpy."""
        total = 0.0
        for place, piece in enumerate(ids):
            logits = self.logits(sentence, ids[:place])
            total += logits[piece] - np.log(np.exp(logits).sum())
        return total


def make_rules(max_lengths, kind="gnmt", alpha=0.6):
    max_lengths = jnp.array(max_lengths)
    length_penalty = make_length_penalty(kind, alpha)
    return Rules(max_lengths, int(max_lengths.max()), length_penalty, BOS, EOS)


def trim(ids):
    """A row of results up to its EOS, which it must have, with zeros after it."""
    ids = ids.tolist()
    end = ids.index(EOS) + 1
    assert not any(ids[end:])
    return tuple(ids[:end])


def hypotheses(found, sentence):
    """(ids, score) of a sentence, best first, without the places that were not filled."""
    rows = zip(found.ids[sentence], found.scores[sentence], strict=True)
    return [(trim(ids), score) for ids, score in rows if score > -np.inf]
