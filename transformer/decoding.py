"""Search over a step function: greedy, beam search, sampling. Knows no model, no text.

    step_fn(tokens [B, W], cache, position) -> (logits [B, W, V] float32, cache)

gives the scores of the piece after `tokens`, which stand at `position`; every leaf of the cache
leads with [B, W]. A hypothesis ends with EOS, which its length n counts; at the last place that a
sentence may use, only EOS is allowed, so every hypothesis has an end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Rules(NamedTuple):
    """What a hypothesis may be, and how hypotheses of different lengths compare."""

    max_lengths: jax.Array  # [B], pieces that each sentence may use, EOS included
    max_length: int  # the T of the results, at least the largest of them
    length_penalty: Callable  # length -> divisor of the log-probability
    bos: int
    eos: int


class Hypotheses(NamedTuple):
    """The results of a search, best first. A score of -inf marks a place that was not filled."""

    ids: jax.Array  # [B, W, T], after EOS zeros
    log_probs: jax.Array  # [B, W], sum over the pieces, EOS included
    scores: jax.Array  # [B, W], log_probs / length penalty


def make_length_penalty(kind, alpha):
    """length (pieces with EOS) -> divisor of the log-probability.

    "gnmt": ((5+n)/6)^α (Wu et al. 2016, equation 14; the paper's); "power": n^α (fairseq, OpenNMT).
    """
    if kind == "gnmt":
        return lambda n: ((5.0 + n) / 6.0) ** alpha
    if kind == "power":
        return lambda n: jnp.asarray(n, jnp.float32) ** alpha
    raise ValueError(f"The length penalty must be 'gnmt' or 'power', not {kind!r}.")


class _Beams(NamedTuple):
    position: jax.Array
    live_ids: jax.Array  # [B, W, T+1], BOS first
    live_log_probs: jax.Array  # [B, W]
    finished: Hypotheses
    cache: Any


def beam_search(step_fn, cache, rules, *, beam_size, num_best=1):
    """The `beam_size` best hypotheses that beam search finds; the cache is for W = beam_size.

    At each step the 2W best continuations are looked at, so that W remain even if W of them end.
    The search stops when no live hypothesis can still enter the `num_best` best: the bound is
    exact, as a log-probability only falls and is divided by no more than the longest's penalty.
    """
    max_lengths, max_length, length_penalty, bos, eos = rules
    num_sentences = max_lengths.shape[0]
    rows = jnp.arange(num_sentences)[:, None]

    def keep_searching(beams):
        best_possible = beams.live_log_probs.max(1) / length_penalty(max_lengths)
        to_beat = beams.finished.scores[:, num_best - 1]
        return (beams.position < max_length) & (best_possible > to_beat).any()

    def extend(beams):
        position = beams.position
        tokens = jax.lax.dynamic_index_in_dim(beams.live_ids, position, axis=2, keepdims=False)
        logits, cache = step_fn(tokens, beams.cache, position)
        log_probs = beams.live_log_probs[..., None] + _log_softmax(
            logits, position, max_lengths, eos
        )
        candidates, parents, pieces = _top(log_probs, 2 * beam_size)
        ids = beams.live_ids[rows, parents].at[:, :, position + 1].set(pieces)
        ends = pieces == eos
        ended = jnp.where(ends, candidates, -jnp.inf)
        finished = _best(
            beams.finished,
            Hypotheses(ids[:, :, 1:], ended, ended / length_penalty(position + 1.0)),
        )
        live_log_probs, kept = jax.lax.top_k(jnp.where(ends, -jnp.inf, candidates), beam_size)
        cache = jax.tree.map(lambda leaf: leaf[rows, parents[rows, kept]], cache)
        return _Beams(position + 1, ids[rows, kept], live_log_probs, finished, cache)

    shape = (num_sentences, beam_size)
    start = _Beams(
        position=jnp.zeros((), jnp.int32),
        live_ids=jnp.zeros((*shape, max_length + 1), jnp.int32).at[:, :, 0].set(bos),
        live_log_probs=jnp.full(shape, -jnp.inf).at[:, 0].set(0.0),
        finished=Hypotheses(
            jnp.zeros((*shape, max_length), jnp.int32),
            jnp.full(shape, -jnp.inf),
            jnp.full(shape, -jnp.inf),
        ),
        cache=cache,
    )
    return jax.lax.while_loop(keep_searching, extend, start).finished


def _log_softmax(logits, position, max_lengths, eos):
    """log p of every piece; at a sentence's last place, of EOS alone."""
    log_probs = logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    is_last = (position + 1 >= max_lengths)[:, None, None]
    return jnp.where(is_last & (jnp.arange(logits.shape[-1]) != eos), -jnp.inf, log_probs)


def _top(log_probs, count):
    """The `count` best of [B, W, V]: (values, beams, pieces), each [B, count]."""
    vocab_size = log_probs.shape[-1]
    flat = log_probs.reshape(log_probs.shape[0], -1)
    # Its results are not sliced: XLA on the CPU would then sort all W·V scores at every step.
    values, places = jax.lax.top_k(flat, count)
    return values, places // vocab_size, places % vocab_size


def _best(old, new):
    """The W best of two sets of hypotheses."""
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), old, new)
    _, kept = jax.lax.top_k(both.scores, old.scores.shape[1])
    return jax.tree.map(lambda x: x[jnp.arange(x.shape[0])[:, None], kept], both)


def greedy_search(step_fn, cache, rules):
    """The most probable piece at every step: `Hypotheses` with W = 1."""
    return _generate(step_fn, cache, rules, 1, lambda logits, position: logits.argmax(-1))


def sample(step_fn, cache, rules, rngs, *, num_samples=1, temperature=1.0, top_k=0, top_p=1.0):
    """Independent samples: `Hypotheses` with W = num_samples, in no order; the cache is for that W.

    rngs: one PRNG key a sentence, [B, 2], so that its samples do not depend on its neighbours.
    top_k > 0 keeps the k most probable pieces, top_p < 1 the fewest whose probabilities reach p.
    The log-probabilities are the model's own, before temperature and truncation.
    """

    def choose(logits, position):
        step_rngs = jax.vmap(jax.random.fold_in, (0, None))(rngs, position)
        kept = truncate(logits / temperature, top_k, top_p)
        return jax.vmap(jax.random.categorical)(step_rngs, kept)

    return _generate(step_fn, cache, rules, num_samples, choose)


def truncate(logits, top_k=0, top_p=1.0):
    """Logits [..., V] with -inf beyond the k best pieces and the nucleus of mass p; ties stay."""
    if top_k:
        least = jax.lax.top_k(logits, min(top_k, logits.shape[-1]))[0][..., -1:]
        logits = jnp.where(logits < least, -jnp.inf, logits)
    if top_p < 1.0:
        descending = jnp.flip(jnp.sort(logits, axis=-1), axis=-1)
        probabilities = jax.nn.softmax(descending)
        mass_before = jnp.cumsum(probabilities, axis=-1) - probabilities
        least = jnp.where(mass_before < top_p, descending, jnp.inf).min(-1, keepdims=True)
        logits = jnp.where(logits < least, -jnp.inf, logits)
    return logits


class _Growing(NamedTuple):
    position: jax.Array
    ids: jax.Array  # [B, W, T+1]
    log_probs: jax.Array  # [B, W]
    lengths: jax.Array  # [B, W], 0 while unfinished
    cache: Any


def _generate(step_fn, cache, rules, width, choose):
    """Grows W hypotheses a sentence side by side; `choose(logits, position)` picks the pieces."""
    max_lengths, max_length, length_penalty, bos, eos = rules
    shape = (max_lengths.shape[0], width)

    def unfinished(state):
        return (state.position < max_length) & (state.lengths == 0).any()

    def grow(state):
        position, live = state.position, state.lengths == 0
        tokens = jax.lax.dynamic_index_in_dim(state.ids, position, axis=2, keepdims=False)
        logits, cache = step_fn(tokens, state.cache, position)
        log_probs = _log_softmax(logits, position, max_lengths, eos)
        pieces = choose(jnp.where(log_probs == -jnp.inf, -jnp.inf, logits), position)
        gained = jnp.take_along_axis(log_probs, pieces[..., None], axis=-1)[..., 0]
        return _Growing(
            position + 1,
            state.ids.at[:, :, position + 1].set(jnp.where(live, pieces, 0)),
            state.log_probs + jnp.where(live, gained, 0.0),
            jnp.where(live & (pieces == eos), position + 1, state.lengths),
            cache,
        )

    start = _Growing(
        jnp.zeros((), jnp.int32),
        jnp.zeros((*shape, max_length + 1), jnp.int32).at[:, :, 0].set(bos),
        jnp.zeros(shape),
        jnp.zeros(shape, jnp.int32),
        cache,
    )
    end = jax.lax.while_loop(unfinished, grow, start)
    scores = end.log_probs / length_penalty(end.lengths.astype(jnp.float32))
    return Hypotheses(end.ids[:, :, 1:], end.log_probs, scores)
