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
from transformer.search.decoding import FREE, HypothesisRules, Limits
from transformer.search.programs import continuation_programs
from transformer.search.sampling import Sampling, make_rngs

Window = tuple[int, np.ndarray, int]  # as of `LanguageModel._next_window`
OPTIONS = ("temperature", "top_k", "top_p")
NO_END = FREE  # an id that no token has, so that a text which "ends" with it never ends
UNBOUNDED = 2**30  # the window of a model with a memory
STRIDE = 8  # positions between two texts that `stream` shows
NOTHING = np.zeros(0, np.int32)
SHORTEST_CACHE = 16  # positions; others are twice as long, four times, …, up to the window


def num_given(length: int, num_left: int, window: int) -> int:
    """Returns how many tokens at the end of a text are given to a model to add `num_left` more.

    All of them if the new ones fit behind them, else at most half a window: of 5 tokens with a
    window of 8, all to add 3, and the last 4 to add 6.
    """
    return length if length + num_left <= window else min(length, window // 2)


def up_to(ends: Sequence[int], ids: np.ndarray) -> np.ndarray:
    """Returns the ids before the first of `ends`, or all."""
    return ids[: np.append(np.flatnonzero(np.isin(ids, ends)), len(ids))[0]]


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
        self._eos = self.tokenizer.special.eos
        has_memory = self.config.model.has_memory
        self._window = UNBOUNDED if has_memory else self.config.data.row_length
        self._programs: dict[Sampling, Any] = {}

    def generate(
        self,
        prompts: Sequence[str],
        *,
        one_line: bool = False,
        full_batches: bool = False,
        **options: Any,
    ) -> list[str]:
        """Returns the continuation of each prompt, without the prompt.

        Args:
          prompts: list of str; none changes the continuation of another.
          one_line: whether a continuation ends before the first line break.
          full_batches: whether one prompt alone is computed as a batch too, which is slower, so
            that its numbers have the same last digits as among others.
          num_pieces: tokens per continuation, line breaks included (200).
          seed: of the random draws (0); equal seeds and prompts give equal continuations.
          temperature: divides the logits (1.0); 0 takes the most probable token at every position.
          top_k: draws from the k most probable tokens only (0: from all).
          top_p: draws from the fewest tokens whose probabilities reach p (1.0: from all).

        Raises ValueError for an impossible option.
        """
        check_texts(prompts, "generate")
        num_rows = self.config.decoding.batch_size if full_batches or len(prompts) > 1 else 1
        ends = self._ends(one_line)
        *_, generated = [], *self._generated(prompts, num_rows, ends, **options)
        return [self.decode(up_to(ends, ids)) for ids in generated]

    def answers(self, lines: list[str], **options: Any) -> list[str]:
        """Returns the continuation of each line up to its end, alike however lines are divided."""
        return self.generate(lines, one_line=True, full_batches=True, **options)

    @property
    def truncation(self) -> str:
        return (
            f"too long to be continued in the {self.config.data.row_length} tokens that the model "
            f"sees: of those, only the last half of a window was given to it"
        )

    def stream(self, prompt: str, *, one_line: bool = False, **options: Any) -> Iterator[str]:
        """Yields, `STRIDE` tokens at a time, the text that `generate` returns for one prompt."""
        ends, shown, text = self._ends(one_line), "", ""
        for (ids,) in self._generated([prompt], 1, ends, **options):
            text = self.decode(up_to(ends, ids))
            if text.startswith(shown) and not text.endswith("\ufffd"):  # half a character
                yield text[len(shown) :]
                shown = text
        yield text[len(shown) :]

    def _generated(
        self,
        prompts: Sequence[str],
        num_rows: int,
        ends: list[int],
        *,
        num_pieces: int = 200,
        seed: int = 0,
        **sampling: Any,
    ) -> Iterator[list[np.ndarray]]:
        """Yields the ids of all continuations whenever some have `STRIDE` tokens more."""
        if num_pieces < 1:
            raise ValueError(f"num_pieces must be at least 1, not {num_pieces}.")
        if unknown := sampling.keys() - set(OPTIONS):
            raise ValueError(f"generate has no option {min(unknown)}: {', '.join(OPTIONS)}.")
        method = Sampling(HypothesisRules(self._eos, ends[0], "power", 0.0), **sampling)
        given, generated = [self.encode(p)[:-1] for p in prompts], [NOTHING for _ in prompts]
        if num_unknown := sum(int((ids == self.tokenizer.special.unk).sum()) for ids in given):
            warnings.warn(f"the prompts have {num_unknown} unknown tokens", stacklevel=3)
        lengths = map(len, given)
        self.num_truncated += sum(num_given(n, num_pieces, self._window) < n for n in lengths)

        def lacks(row: int) -> bool:
            return len(generated[row]) < num_pieces and not np.isin(generated[row], ends).any()

        waiting = range(len(prompts))
        while waiting := [row for row in waiting if lacks(row)]:
            # Texts whose windows have caches of one length run the same programs as each alone.
            alike = defaultdict(list)
            for row in waiting:
                text = np.append(given[row], generated[row])
                window = self._next_window(text, num_pieces - len(generated[row]))
                power_of_2 = max(SHORTEST_CACHE, 1 << (window[-1] - 1).bit_length())
                alike[min(power_of_2, self._window)].append((row, window))
            for length, group in alike.items():
                for start in range(0, len(group), num_rows):
                    rows, windows = zip(*group[start : start + num_rows], strict=True)
                    before = [generated[row] for row in rows]
                    for new in self._fill(windows, num_rows, length, seed, method):
                        for row, ids, more in zip(rows, before, new, strict=True):
                            generated[row] = np.append(ids, more)
                        yield generated
                        if not any(map(lacks, rows)):
                            break

    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of a text: EOS ends each line, or all if line breaks are text."""
        return encode_text(self.tokenizer, text.split("\n"))

    def decode(self, ids: np.ndarray) -> str:
        """Returns the text of ids: lines before each EOS, or all before one with line breaks."""
        if self.tokenizer.line_breaks_are_text:
            return self.tokenizer.decode(ids)
        ends = np.flatnonzero(np.asarray(ids) == self._eos) + 1
        return "\n".join(self.tokenizer.decode(line) for line in np.split(ids, ends))

    def _next_window(self, text: np.ndarray, num_left: int) -> Window:
        """Returns what is given to the model of a text that lacks `num_left` tokens.

        That is (the token before the first position, those at the first positions, the number of
        positions, the new tokens' included).
        """
        num_context = num_given(len(text), num_left, self._window)
        start, context = self._eos, text[len(text) - num_context :]
        if self.tokenizer.line_breaks_are_text and len(context):  # no EOS stands before it
            start, context = context[0], context[1:]
        return start, context, min(self._window, len(context) + num_left)

    def _ends(self, one_line: bool) -> list[int]:
        """Returns the ids that end a continuation, first the one that also ends a hypothesis."""
        if not self.tokenizer.line_breaks_are_text:
            return [self._eos if one_line else NO_END]
        ids = self.tokenizer.special.others(self.tokenizer.vocab_size) if one_line else []
        return [self._eos, *(int(i) for i in ids if "\n" in self.tokenizer.decode([i]))]

    def _fill(
        self, windows: Sequence[Window], num_rows: int, length: int, seed: int, method: Sampling
    ) -> Iterator[list[np.ndarray]]:
        """Yields the new ids of each window every `STRIDE` positions; length: of their cache."""
        starts, stops = np.full(num_rows, self._eos, np.int32), np.zeros(num_rows, np.int32)
        forced = np.full((num_rows, length), FREE, np.int32)
        for row, (start, context, stop) in enumerate(windows):
            starts[row], stops[row], forced[row, : len(context)] = start, stop, context
        # A maximal length beyond the window, as no hypothesis has to end at the last position.
        limits = Limits(np.where(stops, self._window + 1, 0), forced)
        if method not in self._programs:
            self._programs[method] = continuation_programs(self.model, method)
        begin, advance = self._programs[method]
        slots = begin(limits, make_rngs(seed, np.maximum(forced, 0)), starts)
        for position in range(0, int(stops.max()), STRIDE):
            slots, ids, is_finished = advance(self._params, slots, STRIDE)
            rows, seen = zip(np.asarray(ids), windows, strict=False), position + STRIDE
            yield [row[len(context) : min(seen, stop)] for row, (_, context, stop) in rows]
            if is_finished:
                return
