"""What an encoder-decoder makes of given texts: states, logits, log-probabilities, attention."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import jax
import numpy as np
from etils.epath import PathLike
from jax.typing import DTypeLike

from transformer.checkpoint.restore import restore
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import phase
from transformer.data.bucketing import plan_batches
from transformer.data.labels import Labels
from transformer.data.ragged import Ragged
from transformer.data.tags import Tags
from transformer.data.tokenizer import check_texts
from transformer.data.tokenizer_files import Tokenizer
from transformer.inference.alignment import Alignment, align_words, default_layer, word_numbers
from transformer.inference.predictor import Predictor
from transformer.inference.scoring import (
    AttentionWeights,
    BatchFn,
    ModelFunctions,
    PerToken,
    one_pair_per_row,
    pad_rows,
)
from transformer.inference.translation import Translation
from transformer.parallel.hosts import leave_if_told
from transformer.search.decoding import make_length_penalty
from transformer.search.programs import one_behind, split_rows

Results = Iterator[tuple[np.ndarray, jax.Array]]  # the indices of pairs, -1 for none; their values


class TranslationModel(Predictor):
    """A translation model with its tokenizers, before any search; `Translator` adds that.

    tokenizers: (source, target). devices: each computes sentences of its own; None: all local
    devices. Texts longer than `largest_bucket()` tokens are refused, except by `score`, as the cost
    grows with the square of the length.
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
        self._tags = Tags(config.data)
        self._functions = ModelFunctions(self.model)
        # The language that every target begins with, where there is one, is given: not scored.
        self._num_unscored = len(self.tokenizer.encode([""])[0]) - 1

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

    def _facts(self) -> list[str]:
        return [f"{self.config.data.source_language}-{self.config.data.target_language}"]

    def largest_bucket(self) -> int:
        """Returns the most source tokens that are translated: a training row, at least 256."""
        longest, model = max(256, self.config.data.row_length), self.config.model
        return min(longest, model.max_positions) if model.is_bounded else longest

    # ---- for research

    def encode(self, sources: Sequence[str]) -> PerToken:
        """Returns the encoded sources: `values` [B, S, D], as the decoder sees them."""
        source = self._encode_sources(sources)
        nothing = Ragged.from_lists([[]] * len(sources))
        rows = self._compute(self._functions.encoded, source, nothing, source.lengths)
        return pad_rows(rows, self._pieces(self.source_tokenizer, source))

    def logits(self, sources: Sequence[str], targets: Sequence[str]) -> PerToken:
        """Returns the logits of each target: `values` [B, T, V] float32.

        `values[b, t]` are the scores of every token of the vocabulary at position t, given the
        source and the target's tokens before t.
        """
        return self._per_target(self._functions.logits, sources, targets)

    def log_probs(self, sources: Sequence[str], targets: Sequence[str]) -> PerToken:
        """Returns the log-probability of each target's tokens, `values` [B, T].

        `score` sums it, but for the language that the targets of some imported models begin with.
        """
        return self._per_target(self._functions.log_probs, sources, targets)

    def attention(self, source: str, target: str | Translation) -> AttentionWeights:
        """Returns the attention weights of all layers and heads for one sentence pair."""
        ids = self._encode_sources([source])[0].tolist()
        if isinstance(target, Translation):
            target_ids = target.ids
        else:
            target_ids = self._encode_texts(self.tokenizer, [target])[0].tolist()
        weights = self._functions.attention(self._params, ids, target_ids)
        pieces = self.source_tokenizer.pieces(ids), self.tokenizer.pieces(target_ids)
        return AttentionWeights(*pieces, *weights)

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[Translation]:
        """Returns `targets` as Translations of `sources`, with log-probability and score.

        Where a side is longer than `largest_bucket()` both are nan, with a warning. Raises
        ValueError if the numbers of lines differ.
        """
        sources, targets = list(sources), list(targets)
        _check_pairs(sources, targets)
        source = Ragged.encode(self.source_tokenizer, [*map(self._tags.put_on, sources)])
        target = Ragged.encode(self.tokenizer, targets)
        decoding = self.config.decoding
        penalty = make_length_penalty(decoding.length_penalty, decoding.alpha)
        fits = self._fitting(source, target, "nan for a score")
        sides, log_probs = (source.take(fits), target.take(fits)), np.full(len(targets), np.nan)
        rows = self._compute(self._functions.log_probs, *sides, sides[1].lengths)
        log_probs[fits] = [row[self._num_unscored :].sum() for row in rows]
        scores = log_probs / np.asarray(penalty(target.lengths))
        scored = zip(targets, scores.tolist(), log_probs.tolist(), strict=True)
        return [Translation(*found, target[index].tolist()) for index, found in enumerate(scored)]

    def align(
        self, sources: Sequence[str], targets: Sequence[str | Translation], layer: int | None = None
    ) -> list[Alignment]:
        """Returns the word alignment of each pair, by the mean of a decoder layer's heads.

        layer: from 0; None: `default_layer`. A pair that is too long gets none, with a warning.
        """
        tagged = [*map(self._tags.put_on, sources)]
        source = Ragged.encode(self.source_tokenizer, tagged)
        encode = self.tokenizer.encode
        ids = [t.ids if isinstance(t, Translation) else encode([t])[0] for t in targets]
        target, found = Ragged.from_lists(ids), [Alignment() for _ in ids]
        fits = self._fitting(source, target, "no alignment")
        sides = source.take(fits), target.take(fits)
        rows = self._compute(self._functions.to_source, *sides, sides[1].lengths)
        for index, weights in zip(fits, rows, strict=True):
            num_tags = len(tagged[index].split()) - len(sources[index].split())
            ours = word_numbers(self.source_tokenizer, source[index].tolist(), num_tags)
            chosen = default_layer(weights.shape[1]) if layer is None else layer
            theirs = word_numbers(self.tokenizer, ids[index])
            found[index] = align_words(weights[:, chosen], ours, theirs)
        return found

    # ---- shared

    def _fitting(self, source: Ragged, target: Ragged, otherwise: str) -> np.ndarray:
        """Returns the pairs that the model takes; warns what the others get."""
        longest = self.largest_bucket()
        lengths = np.maximum(source.lengths, target.lengths)
        if (lengths > longest).any():
            warnings.warn(f"pairs of more than {longest} tokens get {otherwise}", stacklevel=3)
        return np.flatnonzero((lengths <= longest) & (target.lengths > 0))

    def _per_target(
        self, function: BatchFn, sources: Sequence[str], targets: Sequence[str]
    ) -> PerToken:
        _check_pairs(sources, targets)
        source = self._encode_sources(sources)
        target = self._encode_texts(self.tokenizer, targets)
        rows = self._compute(function, source, target, target.lengths)
        return pad_rows(rows, self._pieces(self.tokenizer, target))

    def _encode_sources(self, sources: Sequence[str]) -> Ragged:
        """Returns the ids of sources with their tags; raises ValueError for one too long."""
        check_texts(sources, "encode")
        return self._encode_texts(self.source_tokenizer, [*map(self._tags.put_on, sources)])

    def _encode_texts(self, tokenizer: Tokenizer, texts: Sequence[str]) -> Ragged:
        """Returns the ids of texts; raises ValueError for one that is too long."""
        encoded, longest = Ragged.encode(tokenizer, texts), self.largest_bucket()
        for index in np.flatnonzero(encoded.lengths > longest)[:1]:
            raise ValueError(
                f"Text {index} has {encoded.lengths[index]} tokens, and the model takes {longest}: "
                f"shorten it."
            )
        return encoded

    def _compute(
        self, function: BatchFn, source: Ragged, target: Ragged, lengths: np.ndarray
    ) -> list[np.ndarray]:
        """Returns function(params, batch) of each pair, cut to its one of `lengths`."""
        found = [np.zeros(0, np.float32)] * len(source)
        with phase("scoring given texts", len(source)) as scoring:
            begun = self._results(function, source, target)
            if function is not self._functions.logits:  # of which a device may not hold two
                begun = one_behind(begun)
            for rows, result in begun:
                leave_if_told()
                values = jax.device_get(result)
                for row in np.flatnonzero(rows >= 0):
                    found[rows[row]] = values[row, : lengths[rows[row]]]
                scoring.advance(int((rows >= 0).sum()))
        return found

    def _results(self, function: BatchFn, source: Ragged, target: Ragged) -> Results:
        lengths = np.maximum(source.lengths, target.lengths)
        sizes = self.largest_bucket(), self.config.decoding.batch_size, self.replicas.size
        for indices, bucket in plan_batches(lengths, *sizes):
            batch = one_pair_per_row(source, target, indices.ravel(), bucket)
            yield indices.ravel(), function(self._params, split_rows(self.replicas, batch))

    @staticmethod
    def _pieces(tokenizer: Tokenizer, ids: Ragged) -> list[list[str]]:
        return [tokenizer.pieces(ids[index]) for index in range(len(ids))]


def _check_pairs(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raises ValueError unless there are as many sources as targets, all of them str."""
    check_texts(sources, "sources")
    check_texts(targets, "targets")
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources cannot be paired with {len(targets)} targets.")
