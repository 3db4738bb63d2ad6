"""A fake model for the tests of search, its score of given ids, and what they all need."""

import jax.numpy as jnp
import numpy as np

from transformer.search.decoding import FREE, HypothesisRules, Limits

BOS, EOS, V, K = 1, 2, 4, 8


class FakeModel:
    """A recurrent network whose state is the cache, [B, W]: a wrong ancestor shows at once."""

    def __init__(self, num_sentences, vocab_size=V, seed=0):
        rng = np.random.default_rng(seed)
        self.start = rng.normal(size=(num_sentences, K)).astype(np.float32)
        self.recurrent = rng.normal(size=(K, K)).astype(np.float32)
        self.pieces = rng.normal(size=(vocab_size, K)).astype(np.float32)
        self.output = rng.normal(size=(K, vocab_size)).astype(np.float32)

    def cache(self, width):
        return jnp.repeat(self.start[:, None], width, axis=1)

    def step_fn(self, tokens, cache, position, ancestors):
        parents = jnp.where(position > 0, ancestors[:, :, position - 1], 0)
        before = jnp.take_along_axis(cache, parents[..., None], axis=1)
        state = jnp.tanh(before @ self.recurrent + jnp.asarray(self.pieces)[tokens])
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


def make_rules(kind="gnmt", alpha=0.6, min_length=0):
    return HypothesisRules(BOS, EOS, kind, alpha, min_length)


def make_limits(max_lengths, prefixes=()):
    """Limits of sentences that may use so many pieces; prefixes: how the first of them begin."""
    forced = np.full((len(max_lengths), max(max_lengths)), FREE)
    for row, prefix in enumerate(prefixes):
        forced[row, : len(prefix)] = prefix
    return Limits(jnp.array(max_lengths), jnp.array(forced))


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
