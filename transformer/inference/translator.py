"""Sentences to sentences: the public object, made from a work directory in one line."""

import warnings
from dataclasses import dataclass, field, replace
from itertools import islice

import jax
import numpy as np

from transformer.checkpoint.restore import cast_matrices, put_restored, restore
from transformer.data.bucketing import plan_batches
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import load_tokenizers
from transformer.inference.scoring import make_attention, make_log_probs, smallest_batch
from transformer.model.encoder_decoder import Transformer
from transformer.search.batches import SearchBatches, pair_up
from transformer.search.continuous_batching import (
    ContinuousBatcher,
    Programs,
    make_replicas,
    most_programs,
    replicate,
)
from transformer.search.decoding import make_length_penalty
from transformer.search.options import SearchOptions
from transformer.special_tokens import EOS

WINDOW = 16_384  # sentences of an iterator that are sorted by length together


@dataclass
class Translation:
    """One translation. score: log_prob over the length penalty, the order of an n-best list."""

    text: str
    score: float
    log_prob: float
    ids: list[int] = field(default_factory=list, repr=False)  # with EOS; none of an empty source
    attention: np.ndarray | None = field(default=None, repr=False)  # [layers, N, T, S], if asked

    @property
    def num_pieces(self):
        return len(self.ids)

    def __str__(self):
        return self.text


class Translator:
    """Translates with given parameters; `from_checkpoint` finds them.

    >>> translator = Translator.from_checkpoint("runs/m30k")
    >>> [str(t) for t in translator.translate(["A man rides a horse."])]
    ['Ein Mann reitet auf einem Pferd.']

    Any number of sentences of any length may be given; none changes the translation of another.
    devices: those that translate, each its own sentences; None: all of this machine.
    """

    def __init__(self, config, params, tokenizers, devices=None):
        self.config = config
        self.source_tokenizer, self.tokenizer = tokenizers
        self.model = Transformer(config.model, *(t.vocab_size for t in tokenizers))
        self.replicas = make_replicas(devices or jax.local_devices())
        self.checkpoint = "in memory"  # or the name of the one that was restored
        self.step, self.num_averaged = None, 1  # of what was restored
        self.num_truncated = 0  # sentences longer than the largest bucket
        self._searches = {}  # Search -> its compiled Programs
        self._log_probs = make_log_probs(self.model, self.replicas)
        self._attention = make_attention(self.model)
        self.params = params

    @classmethod
    def from_checkpoint(
        cls, path, checkpoint="default", *, dtype=None, batch_size=None, devices=None
    ):
        """Restores a work directory or an export, local or gs://, whatever wrote it.

        checkpoint as `restore.restore` takes it. dtype: "float32" or "bfloat16", to compute in
        another one than the run did; batch_size: in place of `decoding.batch_size`, how many
        sentences each device searches at once.
        """
        restored = restore(
            path, checkpoint, tasks=["translation"], dtype=dtype, batch_size=batch_size
        )
        tokenizers = load_tokenizers(restored.workdir.path)
        translator = cls(restored.config, None, tokenizers, devices)
        return put_restored(translator, restored, smallest_batch())

    @property
    def params(self):
        """The weights, on every lane. Matrices are kept in the number format of the computation."""
        return self._params

    @params.setter
    def params(self, params):
        self._params = params and replicate(self.replicas, cast_matrices(params, self.config))

    # ---- search

    def translate(self, sentences, *, nbest=None, prefixes=None, attention=False, **options):
        """A `Translation` of each sentence, in order; with `nbest` a list of that many.

        A list in gives a list out; any other iterable gives an iterator, which reads no more than
        `WINDOW` sentences ahead. prefixes: how each translation has to begin ("" where it is free).
        attention: with each translation where the decoder looked. options: beam_size, alpha,
        length_penalty, max_extra_length and min_length (pieces, EOS included) in place of the
        configuration's; `early_stopping=True` ends each search with its beam_size-th hypothesis,
        which is faster and can find less; or `sample=True` with temperature, top_k, top_p and seed.

        An empty sentence stays empty; one beyond the largest bucket is truncated and counted in
        `num_truncated`.
        """
        if isinstance(sentences, str):
            raise ValueError("translate takes a list of sentences: translate([text])[0].")
        search = SearchOptions.from_config(self.config.decoding, nbest=nbest or 1, **options)
        pairs = pair_up(sentences, prefixes)

        def translate():
            for window in iter(lambda: list(islice(pairs, WINDOW)), []):
                for found in self._translate(window, search, attention):
                    yield found if nbest else found[0]

        return list(translate()) if isinstance(sentences, list | tuple) else translate()

    def _translate(self, pairs, search, attention):
        """Lists of Translations of (sentence, prefix) pairs."""
        results = [[Translation("", 0.0, 0.0)] for _ in pairs]
        places = [i for i, (sentence, _) in enumerate(pairs) if sentence.strip()]
        source = Ragged.encode(self.source_tokenizer, [pairs[i][0] for i in places])
        forced = Ragged.encode(self.tokenizer, [pairs[i][1] for i in places])
        programs = self._programs(replace(search, seed=0))  # the seed is no part of a program
        conveyor = ContinuousBatcher(programs, self._params, self.config.decoding.batch_size)
        batches = SearchBatches(self._plan(source.lengths), source, forced, search)
        for index, found in conveyor.run(batches):
            translations = self._read(found, search)
            for translation in translations if attention else []:
                looks = self._attention(self._params, source[index], translation.ids)
                translation.attention = looks
            results[places[index]] = translations
        self.num_truncated += batches.num_truncated
        return results

    def largest_bucket(self):
        """The longest source that is translated whole: a training row, at least 256 pieces."""
        longest = max(256, self.config.data.row_length)
        if self.config.model.positions == "learned":
            longest = min(longest, self.config.model.max_positions)
        return longest

    def num_programs(self):
        """How many programs have been compiled, for all searches so far."""
        return sum(programs.num_compiled() for programs in self._searches.values())

    def most_programs(self, **options):
        """How many programs one search needs at most, whatever is translated."""
        search = SearchOptions.from_config(self.config.decoding, **options)
        size = self.config.decoding.batch_size
        return most_programs(size, self.largest_bucket(), search.max_extra_length)

    def _programs(self, search):
        if search not in self._searches:
            self._searches[search] = Programs(self.model, search.method(), self.replicas)
        return self._searches[search]

    def _plan(self, lengths):
        size = self.config.decoding.batch_size
        return plan_batches(lengths, self.largest_bucket(), size, self.replicas.size)

    def _read(self, found, search):
        """The Translations of the `nbest` best of a sentence's hypotheses, as far as there are."""
        best = islice(zip(*found, strict=True), search.nbest)
        return [
            Translation(self.tokenizer.decode(ids), float(score), float(log_prob), _to_eos(ids))
            for ids, log_prob, score in best
            if score > -np.inf
        ]

    # ---- given translations

    def score(self, sources, targets):
        """The Translations that `targets` are of `sources`, with log-probability and score.

        Both are nan, with a warning, where a side is longer than the largest bucket: the arithmetic
        grows with the square of the length.
        """
        sources, targets = list(sources), list(targets)
        if len(sources) != len(targets):
            raise ValueError(
                f"{len(sources)} sources cannot be scored with {len(targets)} targets."
            )
        source = Ragged.encode(self.source_tokenizer, sources)
        target = Ragged.encode(self.tokenizer, targets)
        decoding = self.config.decoding
        penalty = make_length_penalty(decoding.length_penalty, decoding.alpha)
        lengths, longest = np.maximum(source.lengths, target.lengths), self.largest_bucket()
        fits = np.flatnonzero(lengths <= longest)
        if len(fits) < len(targets):
            warnings.warn(f"pairs of more than {longest} pieces get nan for a score", stacklevel=2)
        log_probs = np.full(len(targets), np.nan, np.float32)
        sides = source.take(fits), target.take(fits)
        log_probs[fits] = self._log_probs(self._params, self._plan(lengths[fits]), *sides)
        return [
            Translation(text, float(log_prob / penalty(len(ids))), float(log_prob), ids.tolist())
            for text, ids, log_prob in zip(targets, target, log_probs, strict=True)
        ]

    def attention(self, source, translation):
        """Encoder-decoder attention of a `Translation` of a sentence.

        Returns (source pieces, target pieces, weights [layers, N, T, S]); row t is of piece t.
        """
        ids = Ragged.encode(self.source_tokenizer, [source])[0]
        weights = self._attention(self._params, ids, translation.ids)
        pieces = self.source_tokenizer.pieces(ids), self.tokenizer.pieces(translation.ids)
        return *pieces, weights


def _to_eos(ids):
    """The ids of a hypothesis without the padding behind EOS."""
    return ids[: np.argmax(ids == EOS) + 1].tolist()
