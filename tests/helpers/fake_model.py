"""A fake model for the tests of search, its score of given ids, and what they all need."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from transformer.search.decoding import FREE, HypothesisRules, Limits
from transformer.search.slots import search_to_end

BOS, EOS, V, K = 1, 2, 4, 8


class FakeModel:
    """A recurrent network whose state is the cache, [B, W]: a wrong ancestor shows at once."""

    def __init__(self, num_sentences, vocab_size=V, seed=0):
        rng = np.random.default_rng(seed)
        shapes = (num_sentences, K), (K, K), (vocab_size, K), (K, vocab_size)
        self.start, *self.weights = (rng.normal(size=n).astype(np.float32) for n in shapes)

    def cache(self, width):
        return np.repeat(self.start[:, None], width, axis=1)

    @staticmethod
    def step(weights, tokens, cache, positions, column, ancestors, encoded=()):
        recurrent, embedding, output = weights
        parents = jnp.where(positions[:, None] > 0, ancestors[:, :, column - 1], 0)
        before = jnp.take_along_axis(cache, parents[..., None], axis=1)
        state = jnp.tanh(before @ recurrent + jnp.asarray(embedding)[tokens])
        return state @ output, state

    def step_fn(self, *args):
        return self.step(self.weights, *args)

    def logits(self, sentence, ids):
        """The scores of the token after BOS and `ids`, in numpy."""
        state, (recurrent, embedding, output) = self.start[sentence], self.weights
        for token in (BOS, *ids):
            state = np.tanh(state @ recurrent + embedding[token])
        return state @ output

    def log_prob(self, sentence, ids):
        """Returns the log-probability of ids, teacher-forced, in numpy."""
        total = 0.0
        for position, token in enumerate(ids):
            logits = self.logits(sentence, ids[:position])
            total += logits[token] - np.log(np.exp(logits).sum())
        return total


class TableModel:
    """A model of one sentence whose next token depends on the last: probabilities [V, V]."""

    def __init__(self, table):
        self.weights = np.log(np.array(table, np.float32) + 1e-9)

    def cache(self, width):
        return np.zeros((1, width), np.float32)

    @staticmethod
    def step(weights, tokens, cache, positions, column, ancestors, encoded=()):
        return jnp.asarray(weights)[tokens], cache


def run_search(method, model, limits, rngs=None):
    """The `Hypotheses` of a search to its end, in numpy.

    Searches of equal shapes by equal methods share a program, whatever the weights and limits.
    """
    cache = model.cache(method.width)
    return jax.device_get(_search(method, model.step, model.weights, limits, cache, rngs))


@partial(jax.jit, static_argnums=(0, 1))
def _search(method, step, weights, limits, cache, rngs):
    return search_to_end(method, partial(step, weights), limits, cache, rngs=rngs)


def make_rules(kind="gnmt", alpha=0.6, min_length=0, num_unscored=0):
    return HypothesisRules(BOS, EOS, kind, alpha, min_length, num_unscored)


def make_limits(max_lengths, prefixes=()):
    """Limits of sentences of at most `max_lengths` tokens, the first of which have `prefixes`."""
    forced = np.full((len(max_lengths), max(max_lengths)), FREE)
    for row, prefix in enumerate(prefixes):
        forced[row, : len(prefix)] = prefix
    return Limits(np.array(max_lengths), forced)


def trim(ids):
    """A row of results up to its EOS, which it must have, with zeros after it."""
    ids = ids.tolist()
    end = ids.index(EOS) + 1
    assert not any(ids[end:])
    return tuple(ids[:end])


def hypotheses(found, sentence):
    """Returns (ids, score) of a sentence, best first, without the entries that were not filled."""
    rows = zip(found.ids[sentence], found.scores[sentence], strict=True)
    return [(trim(ids), score) for ids, score in rows if score > -np.inf]
