"""A prompt to its continuation: the public object of a causal language model."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from transformer.conveyor import STRIDE, Programs, make_lanes, replicate
from transformer.decoding import FREE, Limits, Rules
from transformer.one_stack import CausalLM
from transformer.restoring import cast_matrices, check_shapes, restore
from transformer.sampling import Sampling
from transformer.search import cache_lengths
from transformer.search_batches import make_rngs
from transformer.tokenizer import EOS, UNK
from transformer.vocabulary import load_tokenizers
from transformer.windows import Window

NO_END = FREE  # the id of an end that no piece has: the text goes on


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
        self.lanes = make_lanes(jax.local_devices()[:1])
        self._programs = {}  # Sampling -> its compiled Programs
        self.params = params

    @classmethod
    def from_checkpoint(cls, path, checkpoint="default", *, dtype=None, batch_size=None):
        """Restores a work directory, whatever wrote it; arguments as of `restoring.restore`."""
        tasks = ["language_model"]
        restored = restore(path, checkpoint, tasks=tasks, dtype=dtype, batch_size=batch_size)
        model = cls(restored.config, None, load_tokenizers(restored.workdir.path)[0])
        check_shapes(model.model, smallest_window(), restored.params)
        model.params, model.checkpoint = restored.params, restored.checkpoint
        return model

    @property
    def params(self):
        """The weights."""
        return self._params

    @params.setter
    def params(self, params):
        dtype = jnp.dtype(self.config.model.dtype)
        self._params = params and replicate(self.lanes, cast_matrices(params, dtype))

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
        """Yields what is written so far for each of so many rows, ids, after every few places."""
        end = EOS if one_line else NO_END
        method = Sampling(Rules(EOS, end, "power", 0.0), **sampling)
        texts = [self.ids_of(prompt)[:-1] for prompt in prompts]
        if num_unknown := sum(int((ids == UNK).sum()) for ids in texts):
            warnings.warn(f"the prompts have {num_unknown} unknown pieces", stacklevel=4)
        given = [len(ids) for ids in texts]
        window = self.config.data.row_length
        while True:
            texts = [ids.astype(np.int32) for ids in texts]
            wanted = [len_ + num_pieces - len(ids) for len_, ids in zip(given, texts, strict=True)]
            seen = [ids if len(ids) + n <= window else ids[-(window // 2) :]
                    for ids, n in zip(texts, wanted, strict=True)]  # fmt: skip
            grown = texts
            for new in self._fill_window(method, rows, seen, wanted, seed):
                grown = [np.append(a, b) for a, b in zip(texts, new, strict=True)]
                yield [_before(ids[len_:], end) for ids, len_ in zip(grown, given, strict=True)]
            texts = grown
            done = [
                len(ids) - len_ >= num_pieces or end in ids[len_:]
                for ids, len_ in zip(texts, given, strict=True)
            ]
            if all(done) or not prompts:
                return

    def _fill_window(self, method, rows, seen, wanted, seed):
        """Yields the new pieces of each text after every few places, until the window is full."""
        window = self.config.data.row_length
        forced = np.full((rows, window), FREE, np.int32)
        lengths = np.zeros(rows, np.int32)  # up to where each is written
        for row, (ids, number) in enumerate(zip(seen, wanted, strict=True)):
            forced[row, : len(ids)] = ids
            lengths[row] = min(window, len(ids) + number) if number > 0 else 0
        limits = Limits(np.where(lengths, window + 1, 0), forced)  # no place is the last
        programs = self._programs.setdefault(method, Programs(self.model, method, self.lanes))
        nothing = np.zeros((rows, 1), np.int32), np.ones(rows, np.int32)
        rngs = make_rngs(seed, np.maximum(forced, 0))
        riders = programs.begin(self._params, *nothing, limits, rngs)
        place, caches = 0, cache_lengths(window)
        while place < lengths.max():
            if place in caches:
                riders = riders._replace(state=programs.lengthen(riders.state))
            stop = min([place + STRIDE, *(n for n in caches if n > place)])
            where = np.int32(place), np.int32(stop)
            state, done, found = programs.advance(self._params, riders[:2], riders.state, *where)
            place, riders = stop, riders._replace(state=state)
            ids = np.asarray(found.ids)[:, 0]
            yield [
                row[len(a) : min(place, n)] for row, a, n in zip(ids, seen, lengths, strict=False)
            ]
            if np.asarray(done).all():
                return


def _before(ids, end):
    """The ids before an end, or all."""
    ends = np.flatnonzero(ids == end)
    return ids[: ends[0]] if len(ends) else ids


def smallest_window():
    """For the shapes of parameters."""
    return Window(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int32))
