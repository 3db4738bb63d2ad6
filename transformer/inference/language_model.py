"""Continues prompts with a trained causal language model."""

import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from transformer.checkpoint.restore import Run
from transformer.data.rows.lm_batches import encode_text
from transformer.data.tokenizers.sentencepiece import check_texts
from transformer.inference.predictor import Predictor
from transformer.search.continuation import (
    ContinuationPrograms,
    cache_length,
    cache_lengths,
    num_given,
    up_to,
)
from transformer.search.decoding import FREE, HypothesisRules, Limits
from transformer.search.inputs import make_rngs
from transformer.search.sampling import Sampling
from transformer.special_tokens import EOS, NUM_SPECIAL, UNK

OPTIONS = ("temperature", "top_k", "top_p")
NO_END = FREE  # an id that no token has, so that a text which "ends" with it never ends
UNBOUNDED = 2**30  # the window of a model with a memory
STRIDE = 8  # positions between two texts that `stream` shows


class LanguageModel(Predictor):
    """Continues texts with given parameters; `from_checkpoint` restores them.

    >>> model = LanguageModel.from_checkpoint("runs/shakespeare")
    >>> for text in model.stream("ROMEO:", num_pieces=500, top_k=20):
    ...     print(text, end="", flush=True)

    EOS marks a line break and also stands before the first line. Where line breaks are text, as for
    GPT-2, EOS ends the text and stands before an empty one only. The context is `data.row_length`
    tokens; when it is full, generation continues from its second half. A model with a memory
    (`model.block=transformer_xl`) has no such end: each token sees the cached states before it.
    `num_truncated` counts the prompts of which only the end was given to the model.
    """

    tasks = ("language_model",)

    def __init__(self, run: Run, devices: Sequence[jax.Device] | None = None) -> None:
        super().__init__(run, devices)
        self.tokenizer = run.tokenizers[0]
        self._programs: dict[Sampling, ContinuationPrograms] = {}

    def _facts(self) -> list[str]:
        return [f"{self.tokenizer.vocab_size:,} tokens"]

    def generate(
        self,
        prompts: Sequence[str],
        *,
        num_pieces: int = 200,
        one_line: bool = False,
        seed: int = 0,
        full_batches: bool = False,
        **sampling: Any,
    ) -> list[str]:
        """Returns the continuation of each prompt, without the prompt.

        Args:
          prompts: list of str; none changes the continuation of another.
          num_pieces: tokens per continuation, line breaks included.
          one_line: whether a continuation ends before the first line break.
          seed: of the random draws; equal seeds and prompts give equal continuations.
          full_batches: whether one prompt alone is computed as a batch too, which is slower, so
            that its numbers have the same last digits as among others.
          temperature: divides the logits (1.0); 0 takes the most probable token at every position.
          top_k: draws from the k most probable tokens only (0: from all).
          top_p: draws from the fewest tokens whose probabilities reach p (1.0: from all).

        Raises ValueError for an unknown or impossible option.
        """
        check_texts(prompts, "generate")
        method = self._method(num_pieces, one_line, sampling)
        given, texts = self._encode_prompts(prompts), [""] * len(prompts)
        num_rows = self.config.decoding.batch_size if full_batches or len(prompts) > 1 else 1
        for rows in self._batches(given, num_pieces, num_rows):
            part = [given[row] for row in rows]
            *_, found = self._continue(part, num_rows, num_pieces, one_line, seed, method)
            for row, ids in zip(rows, found, strict=True):
                texts[row] = self.decode(ids)
        lengths = map(len, given)
        self.num_truncated += sum(num_given(n, num_pieces, self._window) < n for n in lengths)
        return texts

    def stream(
        self,
        prompt: str,
        *,
        num_pieces: int = 200,
        one_line: bool = False,
        seed: int = 0,
        **sampling: Any,
    ) -> Iterator[str]:
        """Yields, `STRIDE` tokens at a time, the text that `generate` returns for one prompt."""
        shown = text = ""
        method = self._method(num_pieces, one_line, sampling)
        given = self._encode_prompts([prompt])
        for (ids,) in self._continue(given, 1, num_pieces, one_line, seed, method):
            text = self.decode(ids)
            if text.startswith(shown) and not text.endswith("\ufffd"):  # half a character
                yield text[len(shown) :]
                shown = text
        yield text[len(shown) :]

    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of a text: EOS ends each line, or all if line breaks are text."""
        return encode_text(self.tokenizer, text.split("\n"))

    def decode(self, ids: np.ndarray) -> str:
        """Returns the text of ids: lines before each EOS, or all before one with line breaks."""
        if self.tokenizer.line_breaks_are_text:
            return self.tokenizer.decode(ids)
        ends = np.flatnonzero(np.asarray(ids) == EOS) + 1
        return "\n".join(self.tokenizer.decode(part) for part in np.split(ids, ends))

    def _method(self, num_pieces: int, one_line: bool, sampling: dict[str, Any]) -> Sampling:
        """Returns the search; raises ValueError for options that are unknown or impossible."""
        if num_pieces < 1:
            raise ValueError(f"num_pieces must be at least 1, not {num_pieces}.")
        if unknown := sampling.keys() - set(OPTIONS):
            raise ValueError(
                f"{unknown.pop()} is no option of generate; they are {', '.join(OPTIONS)}."
            )
        return Sampling(HypothesisRules(EOS, self._ends(one_line)[0], "power", 0.0), **sampling)

    def _encode_prompts(self, prompts: Sequence[str]) -> list[np.ndarray]:
        given = [self.encode(prompt)[:-1] for prompt in prompts]
        if num_unknown := sum(int((ids == UNK).sum()) for ids in given):
            warnings.warn(f"the prompts have {num_unknown} unknown tokens", stacklevel=3)
        return given

    def _batches(
        self, given: Sequence[np.ndarray], num_pieces: int, size: int
    ) -> Iterator[list[int]]:
        """Yields the indices of at most `size` texts that are continued by the same programs."""
        start, alike = self.tokenizer.line_breaks_are_text, defaultdict(list)
        for index, ids in enumerate(given):
            alike[cache_lengths(len(ids), num_pieces, self._window, start)].append(index)
        for indices in alike.values():
            yield from (indices[n : n + size] for n in range(0, len(indices), size))

    def _continue(
        self,
        given: Sequence[np.ndarray],
        num_rows: int,
        num_pieces: int,
        one_line: bool,
        seed: int,
        method: Sampling,
    ) -> Iterator[list[np.ndarray]]:
        """Yields the ids generated so far for each text, every `STRIDE` positions."""
        ends = self._ends(one_line)
        generated = [np.zeros(0, np.int32) for _ in given]

        def is_complete(ids: np.ndarray) -> bool:
            return len(ids) >= num_pieces or bool(np.isin(ids, ends).any())

        while not all(map(is_complete, generated)):
            num_left = [num_pieces - len(ids) for ids in generated]
            before = generated
            texts = map(np.append, given, before)
            contexts = [
                text[len(text) - num_given(len(text), left, self._window) :]
                for text, left in zip(texts, num_left, strict=True)
            ]
            for new in self._fill_window(method, num_rows, contexts, num_left, seed):
                generated = [np.append(old, ids) for old, ids in zip(before, new, strict=True)]
                yield [up_to(ends, ids) for ids in generated]
                if all(map(is_complete, generated)):
                    return

    def _ends(self, one_line: bool) -> list[int]:
        """Returns the ids that end a continuation, first the one that also ends a hypothesis."""
        if not self.tokenizer.line_breaks_are_text:
            return [EOS if one_line else NO_END]
        ids = range(NUM_SPECIAL, self.tokenizer.vocab_size if one_line else 0)
        return [EOS, *(i for i in ids if "\n" in self.tokenizer.decode([i]))]

    @property
    def _window(self) -> int:
        return UNBOUNDED if self.config.model.has_memory else self.config.data.row_length

    def _fill_window(
        self,
        method: Sampling,
        num_rows: int,
        contexts: list[np.ndarray],
        num_left: list[int],
        seed: int,
    ) -> Iterator[list[np.ndarray]]:
        """Yields the new ids of each text every `STRIDE` positions, until the window is full."""
        window = self._window
        starts = np.full(num_rows, EOS, np.int32)
        if self.tokenizer.line_breaks_are_text:  # such models see a text without EOS before it
            starts[: len(contexts)] = [ids[0] if len(ids) else EOS for ids in contexts]
            contexts = [ids[1:] for ids in contexts]
        stops = np.zeros(num_rows, np.int32)  # the position up to which each text is generated
        for row, (ids, number) in enumerate(zip(contexts, num_left, strict=True)):
            stops[row] = min(window, len(ids) + number) if number > 0 else 0
        length = cache_length(int(stops.max()), window)
        forced = np.full((num_rows, length), FREE, np.int32)
        for row, ids in enumerate(contexts):
            forced[row, : len(ids)] = ids
        # A maximal length beyond the window, as no hypothesis has to end at the last position.
        limits = Limits(np.where(stops, window + 1, 0), forced)
        if method not in self._programs:
            self._programs[method] = ContinuationPrograms(self.model, method)
        programs = self._programs[method]
        state, cache = programs.begin(make_rngs(seed, np.maximum(forced, 0)), starts, length)
        for position in range(0, int(stops.max()), STRIDE):
            stop = np.int32(min(position + STRIDE, length))
            state, cache, is_finished = programs.advance(
                self._params, limits, state, cache, np.int32(position), stop
            )
            yield [
                row[len(context) : min(stop, last)]
                for row, context, last in zip(
                    np.asarray(state.ids)[:, 0], contexts, stops, strict=False
                )
            ]
            if is_finished:
                return
