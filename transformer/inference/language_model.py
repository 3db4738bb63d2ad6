"""A prompt to its continuation: the public object of a causal language model."""

import warnings

import jax
import numpy as np

from transformer.checkpoint.restore import cast_matrices, put_restored, restore
from transformer.data.lm_batches import WindowBatch
from transformer.data.tokenizer_files import load_tokenizers
from transformer.model.decoder_only import CausalLM
from transformer.search.batches import make_rngs
from transformer.search.continuous_batching import Programs, make_replicas, replicate
from transformer.search.decoding import FREE, HypothesisRules, Limits
from transformer.search.programs import cache_lengths
from transformer.search.sampling import Sampling
from transformer.special_tokens import EOS, UNK

OPTIONS = ("temperature", "top_k", "top_p")
NO_END = FREE  # the id of an end that no piece has: the text goes on
STRIDE = 8  # places after which the new text is shown


class LanguageModel:
    """Continues texts with given parameters; `from_checkpoint` finds them.

    >>> model = LanguageModel.from_checkpoint("runs/shakespeare")
    >>> for text in model.stream("ROMEO:", num_pieces=500, top_k=20):
    ...     print(text, end="", flush=True)

    The end of a line is a piece like any other (EOS), and what a text begins after. The model sees
    `data.row_length` pieces; a longer text is continued from its last half window, again and again.
    """

    def __init__(self, config, params, tokenizer):
        self.config, self.tokenizer = config, tokenizer
        self.model = CausalLM(config.model, tokenizer.vocab_size)
        self.checkpoint = "in memory"
        self.step, self.num_averaged = None, 1  # of what was restored
        self.replicas = make_replicas(jax.local_devices()[:1])
        self._programs = {}  # Sampling -> its compiled Programs
        self.params = params

    @classmethod
    def from_checkpoint(cls, path, checkpoint="default", *, dtype=None, batch_size=None):
        """Restores a work directory, whatever wrote it; arguments as of `restore.restore`."""
        tasks = ["language_model"]
        restored = restore(path, checkpoint, tasks=tasks, dtype=dtype, batch_size=batch_size)
        model = cls(restored.config, None, load_tokenizers(restored.workdir.path)[0])
        return put_restored(model, restored, smallest_window())

    @property
    def params(self):
        """The weights."""
        return self._params

    @params.setter
    def params(self, params):
        self._params = params and replicate(self.replicas, cast_matrices(params, self.config))

    def generate(self, prompts, *, num_pieces=200, one_line=False, seed=0, **sampling):
        """The continuation of each prompt (list of str), without the prompt.

        num_pieces: so many, or with `one_line` fewer, up to the end of the line. sampling:
        temperature (0: always the most probable piece), top_k and top_p, as `sampling.Sampling`
        takes them. What else is in the list changes no continuation.
        """
        if isinstance(prompts, str):
            raise ValueError("generate takes a list of prompts: generate([text])[0].")
        size, texts = self.config.decoding.batch_size, []
        for start in range(0, len(prompts), size):
            part = prompts[start : start + size]
            rows = size if len(prompts) > 1 else 1
            *_, written = self._write(part, rows, num_pieces, one_line, seed, sampling)
            texts += map(self.text_of, written[: len(part)])
        return texts

    def stream(self, prompt, *, num_pieces=200, one_line=False, seed=0, **sampling):
        """Yields the text that `generate` gives for one prompt, a few pieces at a time."""
        shown = ""
        for (ids,) in self._write([prompt], 1, num_pieces, one_line, seed, sampling):
            text = self.text_of(ids)
            if text.startswith(shown) and not text.endswith("\ufffd"):  # half a character
                yield text[len(shown) :]
                shown = text
        yield text[len(shown) :]

    def ids_of(self, text):
        """A text as ids, each line with its end."""
        return np.concatenate(self.tokenizer.encode(text.split("\n"))).astype(np.int32)

    def text_of(self, ids):
        """The text of ids, with an end of line between each EOS and what follows."""
        ends = np.flatnonzero(np.asarray(ids) == EOS) + 1
        return "\n".join(self.tokenizer.decode(part) for part in np.split(ids, ends))

    def _write(self, prompts, rows, num_pieces, one_line, seed, sampling):
        """Yields what is written so far for each prompt, ids, after every few places."""
        if num_pieces < 1:
            raise ValueError(f"num_pieces must be at least 1, not {num_pieces}.")
        end = EOS if one_line else NO_END
        if unknown := sampling.keys() - set(OPTIONS):
            raise ValueError(
                f"{unknown.pop()} is no option of generate; they are {', '.join(OPTIONS)}."
            )
        method = Sampling(HypothesisRules(EOS, end, "power", 0.0), **sampling)
        given = [self.ids_of(prompt)[:-1] for prompt in prompts]
        if num_unknown := sum(int((ids == UNK).sum()) for ids in given):
            warnings.warn(f"the prompts have {num_unknown} unknown pieces", stacklevel=4)
        written = [np.zeros(0, np.int32) for _ in prompts]
        while any(len(ids) < num_pieces and end not in ids for ids in written):
            left = [num_pieces - len(ids) for ids in written]
            before = written
            texts = map(np.append, given, before)
            seen = [self._last_part(text, n) for text, n in zip(texts, left, strict=True)]
            for new in self._fill_window(method, rows, seen, left, seed):
                written = [np.append(old, ids) for old, ids in zip(before, new, strict=True)]
                yield [_up_to(end, ids) for ids in written]

    def _last_part(self, text, num_left):
        """What the model is shown of a text: all if the rest fits behind it, else half a window."""
        window = self.config.data.row_length
        return text if len(text) + num_left <= window else text[-(window // 2) :]

    def _fill_window(self, method, rows, seen, left, seed):
        """Yields the new pieces of each text after every few places, until the window is full."""
        window = self.config.data.row_length
        forced = np.full((rows, window), FREE, np.int32)
        lengths = np.zeros(rows, np.int32)  # up to where each is written
        for row, (ids, number) in enumerate(zip(seen, left, strict=True)):
            forced[row, : len(ids)] = ids
            lengths[row] = min(window, len(ids) + number) if number > 0 else 0
        limits = Limits(np.where(lengths, window + 1, 0), forced)  # no place is the last
        if method not in self._programs:
            self._programs[method] = Programs(self.model, method, self.replicas)
        programs = self._programs[method]
        nothing = np.zeros((rows, 1), np.int32), np.ones(rows, np.int32)
        rngs = make_rngs(seed, np.maximum(forced, 0))
        riders = programs.begin(self._params, *nothing, limits, rngs)
        place, caches = 0, cache_lengths(window)
        while place < lengths.max():
            if place in caches:
                riders = riders._replace(state=programs.lengthen(riders.state))
            stop = min([place + STRIDE, *(length for length in caches if length > place)])
            where = np.array([place], np.int32), np.int32(stop), np.zeros(1, np.int32)
            state, _, done, found = programs.advance(self._params, riders[:2], riders.state, *where)
            place, riders = stop, riders._replace(state=state)
            ids = np.asarray(found.ids)[:, 0]
            yield [
                row[len(a) : min(place, n)] for row, a, n in zip(ids, seen, lengths, strict=False)
            ]
            if np.asarray(done).all():
                return


def _up_to(end, ids):
    """The ids before an end, or all."""
    ends = np.flatnonzero(ids == end)
    return ids[: ends[0]] if len(ends) else ids


def smallest_window():
    """For the shapes of parameters."""
    return WindowBatch(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int32))
