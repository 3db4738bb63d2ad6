"""Translates sentences with a trained model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, Self, overload

import jax
from etils.epath import PathLike

from transformer.checkpoint.restore import Restored, restore
from transformer.console import counted
from transformer.data.ragged import Ragged
from transformer.data.tokenizer import checked_texts
from transformer.inference.minimum_risk import least_risk
from transformer.inference.scoring import ModelFunctions
from transformer.inference.translation import Translation, best_translations
from transformer.inference.translation_model import TranslationModel
from transformer.model import costs
from transformer.model.ensemble import Ensemble
from transformer.parallel.hosts import leave_if_told
from transformer.search.corpus_search import CorpusSearch
from transformer.search.inputs import pair_with_prefixes
from transformer.search.options import SearchOptions
from transformer.search.programs import SearchPrograms, max_num_programs
from transformer.workdir import split_checkpoint

WINDOW = 16_384  # sentences of an iterator that are sorted by length together


class Translator(TranslationModel):
    """Translates with given parameters; `from_checkpoint` restores them.

    >>> translator = Translator.from_checkpoint("runs/m30k")
    >>> [str(t) for t in translator.translate(["A man rides a horse."])]
    ['Ein Mann reitet auf einem Pferd.']

    Any number of sentences of any length may be given; none changes the translation of another.
    tokenizers: (source, target). devices: each translates sentences of its own; None: all local
    devices. `num_truncated` counts the sentences that were longer than `largest_bucket()`.
    """

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
        found = [restore(p, own or checkpoint, tasks=cls.tasks, **options) for p, own in named]
        source, target = found[0].tokenizers
        for (path, _), run in zip(named, found, strict=True):
            if _shared(run) != _shared(found[0]):
                raise ValueError(
                    f"An ensemble needs runs of one vocabulary, languages, data.row_length and "
                    f"model.max_positions, which {path} does not share with {named[0][0]}."
                )
        types = {run.config.model.dtype for run in found}
        widest = types.pop() if len(types) == 1 else "float32"  # no parameter is rounded then
        config = found[0].config.with_values({"model.dtype": widest})
        translator = cls(config, None, (source, target), devices)
        translator.model = Ensemble(tuple(run.model for run in found))
        translator._functions = ModelFunctions(translator.model)
        params = {f"models_{index}": run.params for index, run in enumerate(found)}
        names = " and ".join(f"{run.workdir.path} {run.checkpoint}" for run in found)
        translator.use(replace(found[0], params=params, checkpoint=names))
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
          beam_size, alpha, length_penalty ("gnmt" or "power"): of the beam search; None given, the
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
        found = corpus.run(source, forced)
        for index, hypotheses in counted(found, "translating", len(nonempty)):
            leave_if_told()
            best = best_translations(hypotheses, search.nbest, self.tokenizer)
            if search.mbr:
                best = [least_risk(best, are_samples=search.sample)]
            for translation in best:
                translation.is_cut = bool(is_cut[index])
            for translation in best if attention else []:
                weights = self._functions.attention(self._params, source[index], translation.ids)
                translation.attention = weights[-1]
            results[nonempty[index]] = best
        self.num_truncated += int(is_cut.sum())
        return results

    @cached_property
    def _searches(self) -> dict[SearchOptions, SearchPrograms]:
        return {}

    def num_programs(self) -> int:
        """Returns the number of programs compiled so far, over all searches."""
        return sum(programs.num_compiled for programs in self._searches.values())

    def max_num_programs(self, **options: Any) -> int:
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
            method = search.method(self._num_unscored)
            self._searches[search] = SearchPrograms(self.model, method, self.replicas)
        return self._searches[search]


def _shared(run: Restored) -> list[Any]:
    """Returns what the runs of an ensemble must have in common."""
    data, model = run.config.data, run.config.model
    longest = data.row_length, model.max_positions if model.is_bounded else None
    vocabularies = [tokenizer.to_bytes() for tokenizer in run.tokenizers]
    return [data.source_language, data.target_language, longest, *vocabularies]
