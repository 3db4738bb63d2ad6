"""Translates sentences with a trained model, and computes what it makes of given pairs."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Self, Unpack, overload

import jax
import numpy as np
from etils.epath import PathLike
from jax.sharding import NamedSharding, PartitionSpec

from transformer.checkpoint.restore import Run, restore
from transformer.console import counted
from transformer.data.corpora.corpora import Tags
from transformer.data.rows.batch import Batch
from transformer.data.rows.bucketing import bucket_lengths, plan_batches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import Tokenizer
from transformer.data.tokenizers.sentencepiece import check_texts, checked_texts
from transformer.inference import scoring
from transformer.inference.predictor import Predictor
from transformer.inference.scoring import AttentionWeights, ModelFn, PerToken, weights_of
from transformer.inference.translation import (
    Alignment,
    Translation,
    align_words,
    best_translations,
    default_layer,
    least_risk,
    word_numbers,
)
from transformer.model import costs
from transformer.model.encoder_decoder import Ensemble
from transformer.parallel.hosts import leave_if_told
from transformer.search.corpus_search import CorpusSearch, pair_with_prefixes
from transformer.search.decoding import length_penalty
from transformer.search.options import SearchKeywords, SearchOptions, TranslateKeywords
from transformer.search.programs import REPLICA, SearchPrograms, max_num_programs, one_behind
from transformer.workdir import split_checkpoint

IntArray = Sequence[int] | np.ndarray
Texts = list[str] | tuple[str, ...]
WINDOW = 16_384  # sentences of an iterator that are sorted by length together


class Translator(Predictor):
    """Translates with a run; `from_checkpoint` restores one.

    >>> translator = Translator.from_checkpoint("runs/m30k")
    >>> [str(t) for t in translator.translate(["A man rides a horse."])]
    ['Ein Mann reitet auf einem Pferd.']

    Any number of sentences of any length may be given; none changes the translation of another.
    Each device translates sentences of its own. `num_truncated` counts the sentences that were
    longer than `largest_bucket()`; other methods but `score` refuse such texts, as the cost grows
    with the square of the length.
    """

    tasks = ("translation",)
    most_devices = None

    def __init__(self, run: Run, devices: Sequence[jax.Device] | None = None) -> None:
        super().__init__(run, devices)
        self.source_tokenizer, self.tokenizer = run.tokenizers
        self._tags = Tags(run.config.data)
        self._compiled = {each: jax.jit(partial(each, run.model)) for each in scoring.FUNCTIONS}
        # The language that every target begins with, where there is one, is given: not scored.
        self._num_unscored = len(self.tokenizer.encode([""])[0]) - 1
        self._searches: dict[SearchOptions, SearchPrograms] = {}

    @classmethod
    def from_checkpoints(
        cls,
        runs: Sequence[PathLike],
        checkpoint: str | int = "default",
        *,
        devices: Sequence[jax.Device] | None = None,
        **options: Any,
    ) -> Self:
        """Restores several runs as one translator: an `Ensemble`.

        runs: work directories or exports of one vocabulary, each perhaps with a checkpoint of its
        own: "runs/mine@last" (a path that exists is not split); the first one's configuration
        counts. The other arguments are those of `from_checkpoint`. Raises ValueError as that, or if
        the vocabularies differ.
        """
        named = [split_checkpoint(run) for run in runs]
        members = [restore(p, own or checkpoint, tasks=cls.tasks, **options) for p, own in named]
        for (path, _), run in zip(named, members, strict=True):
            if _shared(run) != _shared(members[0]):
                raise ValueError(
                    f"An ensemble needs runs of one vocabulary, languages, data.row_length and "
                    f"model.max_positions, which {path} does not share with {named[0][0]}."
                )
        types = {run.config.model.dtype for run in members}
        widest = types.pop() if len(types) == 1 else "float32"  # no parameter is rounded then
        together = replace(
            members[0],
            model=Ensemble(tuple(run.model for run in members)),
            params={f"models_{index}": run.params for index, run in enumerate(members)},
            config=members[0].config.with_values({"model.dtype": widest}),
            checkpoint=" and ".join(f"{run.workdir.path} {run.checkpoint}" for run in members),
        )
        return cls(together, devices)

    @property
    def truncation(self) -> str:
        return f"longer than {self.largest_bucket()} tokens, cut there"

    def largest_bucket(self) -> int:
        """Returns the most source tokens that are translated: a training row, at least 256."""
        longest, model = max(256, self.config.data.row_length), self.config.model
        return min(longest, model.max_positions) if model.is_bounded else longest

    # ---- search

    @overload
    def translate(
        self, sentences: Texts, *, nbest: None = None, **options: Unpack[TranslateKeywords]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, sentences: Texts, *, nbest: int, **options: Unpack[TranslateKeywords]
    ) -> list[list[Translation]]: ...
    @overload
    def translate(
        self, sentences: Iterable[str], *, nbest: None = None, **options: Unpack[TranslateKeywords]
    ) -> Iterator[Translation]: ...
    @overload
    def translate(
        self, sentences: Iterable[str], *, nbest: int, **options: Unpack[TranslateKeywords]
    ) -> Iterator[list[Translation]]: ...
    def translate(
        self,
        sentences: Iterable[str],
        *,
        nbest: int | None = None,
        prefixes: Iterable[str] | None = None,
        attention: bool = False,
        **options: Unpack[SearchKeywords],
    ) -> Any:
        """Translates sentences in order: returns one `Translation` per sentence.

        A sentence that begins with no tag of the run's corpora gets that of the first corpus, if it
        has one. An empty sentence has an empty translation. One longer than `largest_bucket()` is
        truncated and counted in `num_truncated`.

        Args:
          sentences: a list (the result is a list) or any other iterable of str (the result is an
            iterator that reads at most `WINDOW` sentences ahead).
          nbest: number of translations per sentence, of a beam search at most beam_size; the
            result then holds a list per sentence, best first.
          prefixes: the beginning that each translation must have, "" where it is free; the
            translation may continue its last word.
          attention: whether each `Translation` gets its encoder-decoder attention weights.
          beam_size, alpha, length_penalty ("gnmt" or "power"): of the beam search; default: the
            configuration's. beam_size=1 is greedy search.
          max_extra_length: tokens that a translation may be longer than its source.
          min_length: tokens that a translation must have, EOS included (0).
          early_stopping: whether a search ends with its beam_size-th finished hypothesis, which is
            faster and can find worse translations (False).
          sample: whether translations are drawn from the model instead of searched (False), with
            temperature (1.0), top_k (0: all tokens), top_p (1.0) and seed (0). Draws depend on the
            seed and the sentence, not on the other sentences.
          mbr: number of candidates, drawn or the best of the search, of which that with the least
            Bayes risk is taken, by chrF2 (0: the best by its score).

        Raises ValueError for an unknown or impossible option before anything is compiled.
        """
        search = SearchOptions.from_config(self.config.decoding, nbest=nbest or 1, **options)
        texts = checked_texts(sentences, "translate")
        pairs = pair_with_prefixes(texts, prefixes and checked_texts(prefixes, "prefixes"))

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
        sources = [self._tags.put_on(sentence) for sentence, _ in pairs]
        nonempty = [i for i, sentence in enumerate(sources) if sentence.strip()]
        source = Ragged.encode(self.source_tokenizer, [sources[i] for i in nonempty])
        is_cut = source.lengths > self.largest_bucket()
        forced = Ragged.encode(self.tokenizer, [pairs[i][1] for i in nonempty])
        sizes = self._batch_size(), self.largest_bucket()
        corpus = CorpusSearch(self._programs(search), self._params, search, *sizes)
        searched = corpus.run(source, forced)
        for index, hypotheses in counted(searched, "translating", len(nonempty)):
            leave_if_told()
            best = best_translations(hypotheses, search.nbest, self.tokenizer)
            if search.mbr:
                best = [least_risk(best, are_samples=search.sample)]
            for translation in best:
                translation.is_cut = bool(is_cut[index])
            for translation in best if attention else []:
                *_, translation.attention = self._weights(source[index], translation.ids)
            results[nonempty[index]] = best
        self.num_truncated += int(is_cut.sum())
        return results

    def num_programs(self) -> int:
        """Returns the number of programs compiled so far, over all searches."""
        return sum(programs.num_compiled for programs in self._searches.values())

    def max_num_programs(self, **options: Unpack[SearchKeywords]) -> int:
        """Returns the most programs that a search with such options compiles, for any input."""
        search = SearchOptions.from_config(self.config.decoding, **options)
        return max_num_programs(self._batch_size(), self.largest_bucket(), search)

    def _batch_size(self) -> int:
        """Returns how many sentences a device searches at once.

        A small model on a CPU has half of `decoding.batch_size`, to stay in the caches of a core.
        """
        is_cpu = self.replicas.devices.flat[0].platform == "cpu"
        is_half = is_cpu and costs.fits_a_core(self.config.model)
        return -(-self.config.decoding.batch_size // (1 + is_half))

    def _programs(self, search: SearchOptions) -> SearchPrograms:
        search = replace(search, seed=0, mbr=0)  # the seed is an argument of the programs
        if search not in self._searches:
            method = search.method(self.tokenizer.special, self._num_unscored)
            self._searches[search] = SearchPrograms(self.model, method, self.replicas)
        return self._searches[search]

    # ---- for research

    def encode(self, sources: Sequence[str]) -> PerToken:
        """Returns the encoded sources: `values` [B, S, D], as the decoder sees them."""
        source = self._encode_sources(sources)
        return self._per_token(scoring.encoded, source, source, self.source_tokenizer)

    def logits(self, sources: Sequence[str], targets: Sequence[str]) -> PerToken:
        """Returns the logits of each target: `values` [B, T, V] float32.

        `values[b, t]` are the scores of every token of the vocabulary at position t, given the
        source and the target's tokens before t.
        """
        return self._per_token(scoring.logits, *self._encode_pairs(sources, targets))

    def log_probs(self, sources: Sequence[str], targets: Sequence[str]) -> PerToken:
        """Returns the log-probability of each target's tokens, `values` [B, T].

        `score` sums it, but for the language that the targets of some imported models begin with.
        """
        return self._per_token(scoring.log_probs, *self._encode_pairs(sources, targets))

    def attention(self, source: str, target: str | Translation) -> AttentionWeights:
        """Returns the attention weights of all layers and heads for one sentence pair."""
        ids = self._encode_sources([source])[0]
        is_text = isinstance(target, str)
        target_ids = self._encode_texts(self.tokenizer, [target])[0] if is_text else target.ids
        pieces = self.source_tokenizer.pieces(ids), self.tokenizer.pieces(target_ids)
        return AttentionWeights(*pieces, *self._weights(ids, target_ids))

    def _weights(self, source: IntArray, target: IntArray) -> tuple[np.ndarray, ...]:
        """Returns the last three fields of `AttentionWeights` for the ids of one pair."""
        s, t = len(source), len(target)
        sides = Ragged.from_lists([source]), Ragged.from_lists([target])
        length = next(n for n in bucket_lengths(max(s, t)) if n >= max(s, t))
        batch = Batch.from_pairs(sides, np.array([0]), np.array([1]), (length, length))
        stacks = jax.device_get(self._compiled[scoring.sown_weights](self._params, batch))
        return (
            weights_of(stacks["encoder"], "self_attention")[:, :, :s, :s],
            weights_of(stacks["decoder"], "self_attention")[:, :, :t, :t],
            weights_of(stacks["decoder"], "encoder_attention")[:, :, :t, :s],
        )

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[Translation]:
        """Returns `targets` as Translations of `sources`, with log-probability and score.

        Where a side is longer than `largest_bucket()` both are nan, with a warning. Raises
        ValueError if the numbers of lines differ.
        """
        sources, targets = list(sources), list(targets)
        _check_pairs(sources, targets)
        source = Ragged.encode(self.source_tokenizer, [*map(self._tags.put_on, sources)])
        target = Ragged.encode(self.tokenizer, targets)
        decoding, log_probs = self.config.decoding, np.full(len(targets), np.nan)
        for index, row in self._fitting(scoring.log_probs, source, target, "nan for a score"):
            log_probs[index] = row[self._num_unscored :].sum()
        penalties = length_penalty(target.lengths, decoding.length_penalty, decoding.alpha)
        scores = log_probs / np.asarray(penalties)
        scored = zip(targets, scores.tolist(), log_probs.tolist(), strict=True)
        return [Translation(*facts, target[index].tolist()) for index, facts in enumerate(scored)]

    def align(
        self, sources: Sequence[str], targets: Sequence[str | Translation], layer: int | None = None
    ) -> list[Alignment]:
        """Returns the word alignment of each pair, by the mean of a decoder layer's heads.

        layer: from 0; None: `default_layer`. A pair that is too long gets none, with a warning.
        """
        _check_pairs(sources, [*map(str, targets)])
        tagged = [*map(self._tags.put_on, sources)]
        source = Ragged.encode(self.source_tokenizer, tagged)
        encode = self.tokenizer.encode
        ids = [t.ids if isinstance(t, Translation) else encode([t])[0] for t in targets]
        target, alignments = Ragged.from_lists(ids), [Alignment() for _ in ids]
        for index, weights in self._fitting(scoring.to_source, source, target, "no alignment"):
            num_tags = len(tagged[index].split()) - len(sources[index].split())
            source_words = word_numbers(self.source_tokenizer, source[index].tolist(), num_tags)
            target_words = word_numbers(self.tokenizer, ids[index])
            chosen = default_layer(weights.shape[1]) if layer is None else layer
            alignments[index] = align_words(weights[:, chosen], source_words, target_words)
        return alignments

    # ---- shared

    def _encode_pairs(
        self, sources: Sequence[str], targets: Sequence[str]
    ) -> tuple[Ragged, Ragged, Tokenizer]:
        """Returns the ids of both sides, and the tokenizer of the targets, for `_per_token`."""
        _check_pairs(sources, targets)
        target = self._encode_texts(self.tokenizer, targets)
        return self._encode_sources(sources), target, self.tokenizer

    def _encode_sources(self, sources: Sequence[str]) -> Ragged:
        """Returns the ids of sources with their tags; raises ValueError for one too long."""
        check_texts(sources, "encode")
        return self._encode_texts(self.source_tokenizer, [*map(self._tags.put_on, sources)])

    def _encode_texts(self, tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
        encoded, longest = Ragged.encode(tokenizer, texts), self.largest_bucket()
        for index in np.flatnonzero(encoded.lengths > longest)[:1]:
            raise ValueError(
                f"Text {index} has {encoded.lengths[index]} tokens, and the model takes {longest}: "
                f"shorten it."
            )
        return encoded

    def _per_token(
        self, function: ModelFn, source: Ragged, target: Ragged, tokenizer: Tokenizer
    ) -> PerToken:
        """Returns the values at the tokens of the targets, which are of `tokenizer`."""
        rows = self._compute(function, source, target)
        flat = np.concatenate(rows) if rows else np.zeros(0, np.float32)
        mask = np.arange(target.lengths.max(initial=0)) < target.lengths[:, None]
        values = np.zeros((*mask.shape, *flat.shape[1:]), flat.dtype)
        values[mask] = flat
        return PerToken(values, mask, [tokenizer.pieces(target[n]) for n in range(len(target))])

    def _fitting(
        self, function: ModelFn, source: Ragged, target: Ragged, otherwise: str
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields (index, result) of each pair that the model takes; warns what the others get."""
        longest = self.largest_bucket()
        lengths = np.maximum(source.lengths, target.lengths)
        if (lengths > longest).any():
            warnings.warn(f"pairs of more than {longest} tokens get {otherwise}", stacklevel=3)
        fits = np.flatnonzero((lengths <= longest) & (target.lengths > 0))
        rows = self._compute(function, source.take(fits), target.take(fits))
        yield from zip(fits.tolist(), rows, strict=True)

    def _compute(self, function: ModelFn, source: Ragged, target: Ragged) -> list[np.ndarray]:
        """Returns function(model, params, batch) of each pair, without what is padding."""
        longest, compiled = np.maximum(source.lengths, target.lengths), self._compiled[function]
        sizes = self.largest_bucket(), self.config.decoding.batch_size, self.replicas.size
        by_rows = NamedSharding(self.replicas, PartitionSpec(REPLICA))

        def results() -> Iterator[tuple[np.ndarray, jax.Array]]:
            for dealt, bucket in plan_batches(longest, *sizes):
                indices = dealt.ravel()
                given = indices[indices >= 0], (indices >= 0).astype(int), (bucket, bucket)
                batch = Batch.from_pairs((source, target), *given)
                yield indices, compiled(self._params, jax.device_put(batch, by_rows))

        is_large = function is scoring.logits  # of which a device may not hold two
        rows = self._each_row(results() if is_large else one_behind(results()))
        values = [np.zeros(0, np.float32)] * len(source)
        for index, row in counted(rows, "scoring given texts", len(source)):
            values[index] = row[: target.lengths[index]]
        return values


def _check_pairs(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raises ValueError unless there are as many sources as targets, all of them str."""
    check_texts(sources, "sources")
    check_texts(targets, "targets")
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources cannot be paired with {len(targets)} targets.")


def _shared(run: Run) -> list[Any]:
    """Returns what the runs of an ensemble must have in common."""
    data, model = run.config.data, run.config.model
    longest = data.row_length, model.max_positions if model.is_bounded else None
    vocabularies = [tokenizer.to_bytes() for tokenizer in run.tokenizers]
    return [data.source_language, data.target_language, longest, *vocabularies]
