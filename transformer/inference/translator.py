"""Translates sentences and scores given translations with a trained model."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Self, overload

import jax
import numpy as np
from etils.epath import PathLike
from jax.typing import DTypeLike

from transformer.checkpoint.restore import restore
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import counted
from transformer.data.bucketing import plan_batches
from transformer.data.labels import Labels
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import Tokenizer
from transformer.inference.predictor import Predictor
from transformer.inference.scoring import make_attention_weights, make_log_probs
from transformer.inference.translation import Translation, best_translations
from transformer.search.batches import SearchBatches, pair_with_prefixes
from transformer.search.continuous_batching import ContinuousBatcher
from transformer.search.decoding import make_length_penalty
from transformer.search.options import SearchOptions
from transformer.search.programs import SearchPrograms, max_num_programs

WINDOW = 16_384  # sentences of an iterator that are sorted by length together


class Translator(Predictor):
    """Translates with given parameters; `from_checkpoint` restores them.

    >>> translator = Translator.from_checkpoint("runs/m30k")
    >>> [str(t) for t in translator.translate(["A man rides a horse."])]
    ['Ein Mann reitet auf einem Pferd.']

    Any number of sentences of any length may be given; none changes the translation of another.
    tokenizers: (source, target). devices: each translates sentences of its own; None: all local
    devices. `num_truncated` counts the sentences that were longer than `largest_bucket()`.
    """

    tasks = ("translation",)

    def __init__(
        self,
        config: Config,
        params: Params | None,
        tokenizers: tuple[Tokenizer, Tokenizer],
        devices: Sequence[jax.Device] | None = None,
    ) -> None:
        super().__init__(config, params, tokenizers, Labels([]), devices or jax.local_devices())
        self.source_tokenizer, self.tokenizer = tokenizers
        self._searches: dict[SearchOptions, SearchPrograms] = {}
        self._log_probs = make_log_probs(self.model, self.replicas)
        self._attention_weights = make_attention_weights(self.model)

    @classmethod
    def from_checkpoint(
        cls,
        workdir: PathLike,
        checkpoint: str | int = "default",
        *,
        dtype: DTypeLike | None = None,
        batch_size: int | None = None,
        devices: Sequence[jax.Device] | None = None,
    ) -> Self:
        """Restores a run from its work directory or an export of it, local or gs://.

        Args:
          workdir, checkpoint: as `transformer.restore` takes them.
          dtype: number format of the computation, "float32" or "bfloat16"; None: the run's.
          batch_size: sentences that a device searches at once; None: `decoding.batch_size`.
          devices: each translates sentences of its own; None: all local devices.

        Raises ValueError if there is no such run of translation or no such checkpoint.
        """
        restored = restore(workdir, checkpoint, tasks=cls.tasks, dtype=dtype, batch_size=batch_size)
        source, target = restored.tokenizers
        translator = cls(restored.config, None, (source, target), devices)
        translator.use(restored)
        return translator

    # ---- search

    @overload
    def translate(
        self, sentences: list[str] | tuple[str, ...], *, nbest: None = None, **options: Any
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, sentences: list[str] | tuple[str, ...], *, nbest: int, **options: Any
    ) -> list[list[Translation]]: ...
    @overload
    def translate(
        self, sentences: Iterable[str], *, nbest: None = None, **options: Any
    ) -> Iterator[Translation]: ...
    @overload
    def translate(
        self, sentences: Iterable[str], *, nbest: int, **options: Any
    ) -> Iterator[list[Translation]]: ...
    def translate(
        self,
        sentences: Iterable[str],
        *,
        nbest: int | None = None,
        prefixes: Iterable[str] | None = None,
        attention: bool = False,
        **options: Any,
    ) -> Any:
        """Translates sentences in order: returns one `Translation` per sentence.

        An empty sentence has an empty translation. One longer than `largest_bucket()` is truncated
        and counted in `num_truncated`.

        Args:
          sentences: a list (the result is a list) or any other iterable of str (the result is an
            iterator that reads at most `WINDOW` sentences ahead).
          nbest: number of translations per sentence, at most beam_size; the result then holds a
            list per sentence, best first.
          prefixes: the beginning that each translation must have, "" where it is free.
          attention: whether each `Translation` gets its encoder-decoder attention weights.
          beam_size, alpha, length_penalty ("gnmt" or "power"): of the beam search; None given, the
            configuration's. beam_size=1 is greedy search.
          max_extra_length: tokens that a translation may be longer than its source.
          min_length: tokens that a translation must have, EOS included (0).
          early_stopping: whether a search ends with its beam_size-th finished hypothesis, which is
            faster and can find worse translations (False).
          sample: whether translations are drawn from the model instead of searched (False), with
            temperature (1.0), top_k (0: all tokens), top_p (1.0) and seed (0). Draws depend on the
            seed and the sentence, not on the other sentences.

        Raises ValueError for an unknown or impossible option before anything is compiled.
        """
        if isinstance(sentences, str):
            raise ValueError("translate takes a list of sentences: translate([text])[0].")
        search = SearchOptions.from_config(self.config.decoding, nbest=nbest or 1, **options)
        pairs = pair_with_prefixes(sentences, prefixes)

        def translations() -> Iterator[Translation | list[Translation]]:
            for window in iter(lambda: list(islice(pairs, WINDOW)), []):
                for best in self._translate(window, search, attention):
                    yield best if nbest else best[0]

        return list(translations()) if isinstance(sentences, list | tuple) else translations()

    def _translate(
        self, pairs: list[tuple[str, str]], search: SearchOptions, attention: bool
    ) -> list[list[Translation]]:
        """Returns the n-best list of each (sentence, prefix)."""
        results = [[Translation("", 0.0, 0.0)] for _ in pairs]
        nonempty = [i for i, (sentence, _) in enumerate(pairs) if sentence.strip()]
        source = Ragged.encode(self.source_tokenizer, [pairs[i][0] for i in nonempty])
        forced = Ragged.encode(self.tokenizer, [pairs[i][1] for i in nonempty])
        size = self.config.decoding.batch_size
        batcher = ContinuousBatcher(self._programs(search), self._params, size)
        batches = SearchBatches(self._plan(source.lengths), source, forced, search)
        for index, hypotheses in counted(batcher.run(batches), "translating", len(nonempty)):
            best = best_translations(hypotheses, search.nbest, self.tokenizer)
            for translation in best if attention else []:
                translation.attention = self._attention_weights(
                    self._params, source[index], translation.ids
                )
            results[nonempty[index]] = best
        self.num_truncated += batches.num_truncated
        return results

    def largest_bucket(self) -> int:
        """Returns the most source tokens that are translated: a training row, at least 256."""
        longest = max(256, self.config.data.row_length)
        if self.config.model.positions == "learned":
            longest = min(longest, self.config.model.max_positions)
        return longest

    def num_programs(self) -> int:
        """Returns the number of programs compiled so far, over all searches."""
        return sum(programs.num_compiled for programs in self._searches.values())

    def max_num_programs(self, **options: Any) -> int:
        """Returns the most programs that a search with such options compiles, for any input."""
        search = SearchOptions.from_config(self.config.decoding, **options)
        size = self.config.decoding.batch_size
        return max_num_programs(size, self.largest_bucket(), search.max_extra_length)

    def _programs(self, search: SearchOptions) -> SearchPrograms:
        search = replace(search, seed=0)  # the seed is an argument of the programs
        if search not in self._searches:
            self._searches[search] = SearchPrograms(self.model, search.method(), self.replicas)
        return self._searches[search]

    def _plan(self, lengths: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        size = self.config.decoding.batch_size
        return plan_batches(lengths, self.largest_bucket(), size, self.replicas.size)

    # ---- given translations

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[Translation]:
        """Returns `targets` as Translations of `sources`, with log-probability and score.

        Where a side is longer than `largest_bucket()` both are nan, with a warning, as the cost
        grows with the square of the length. Raises ValueError if the numbers of lines differ.
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
            warnings.warn(f"pairs of more than {longest} tokens get nan for a score", stacklevel=2)
        log_probs = np.full(len(targets), np.nan, np.float32)
        sides = source.take(fits), target.take(fits)
        log_probs[fits] = self._log_probs(self._params, self._plan(lengths[fits]), *sides)
        scored = []
        for index, (text, log_prob) in enumerate(zip(targets, log_probs, strict=True)):
            ids = target[index].tolist()
            score = float(log_prob / penalty(len(ids)))
            scored.append(Translation(text, score, float(log_prob), ids))
        return scored

    def attention(
        self, source: str, translation: Translation
    ) -> tuple[list[str], list[str], np.ndarray]:
        """Computes the encoder-decoder attention of a `Translation` of the sentence `source`.

        Returns (source pieces, target pieces, weights [layers, N, T, S]): row t holds the weights
        with which target piece t was predicted.
        """
        ids = Ragged.encode(self.source_tokenizer, [source])[0]
        weights = self._attention_weights(self._params, ids, translation.ids)
        pieces = self.source_tokenizer.pieces(ids), self.tokenizer.pieces(translation.ids)
        return *pieces, weights
