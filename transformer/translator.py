"""Sentences to sentences: the public object, made from a work directory in one line."""

import functools
from dataclasses import dataclass, field, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from transformer.batching import Batch, fill_rows, shift_right
from transformer.bucketing import fill_inputs, plan_batches
from transformer.checkpoint import open_for_reading
from transformer.decoding import make_length_penalty
from transformer.loss import cross_entropy
from transformer.models import Transformer
from transformer.ragged import Ragged
from transformer.search import Search, search
from transformer.tokenizer import EOS
from transformer.vocabulary import load_tokenizers
from transformer.workdir import WorkDir


@dataclass
class Translation:
    """One translation. score: log_prob over the length penalty, the order of an n-best list."""

    text: str
    score: float
    log_prob: float
    ids: list[int] = field(
        default_factory=list, repr=False
    )  # EOS included; none if source is empty

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
    """

    def __init__(self, config, params, tokenizers):
        self.config, self.params = config, params
        self.source_tokenizer, self.tokenizer = tokenizers
        self.model = Transformer(config.model, *(t.vocab_size for t in tokenizers))
        self.checkpoint = "in memory"  # or the name of the one that was restored
        self.num_truncated = 0  # sentences longer than the largest bucket
        self._search = functools.cache(self._make_search)  # compiled once a set of options

    @classmethod
    def from_checkpoint(cls, path, checkpoint="default"):
        """Restores a work directory on this machine's first device, whatever wrote it.

        checkpoint: "last", "best", a step, "average:N" (the mean of the last N), or "default": the
        mean of `decoding.average_checkpoints` if that is above 1, else the best, else the last.
        """
        workdir = WorkDir(path)
        config = workdir.load_config()
        tokenizers = load_tokenizers(workdir.path)
        checkpoints = open_for_reading(workdir.path, config)
        name, params = checkpoints.load(checkpoint, config.decoding.average_checkpoints)
        translator = cls(config, jax.device_put(params, jax.local_devices()[0]), tokenizers)
        translator.checkpoint = name
        translator._check_shapes()
        return translator

    def _check_shapes(self):
        """Refuses parameters of another model or vocabulary than config and tokenizer say."""
        batch = self._pairs(*[Ragged.of([EOS])] * 2, np.array([0]), 1, 1)
        init = partial(self.model.init, deterministic=True)
        expected = jax.eval_shape(init, jax.random.PRNGKey(0), batch)["params"]
        for (path, want), got in zip(
            jax.tree_util.tree_leaves_with_path(expected),
            jax.tree.leaves(self.params),
            strict=False,
        ):
            if want.shape != got.shape:
                raise ValueError(
                    f"The checkpoint does not fit config.json and the tokenizer beside it: "
                    f"{jax.tree_util.keystr(path)} must be {want.shape}, but is {got.shape}."
                )
        if jax.tree.structure(expected) != jax.tree.structure(self.params):
            raise ValueError("The checkpoint holds other layers than config.json says.")

    # ---- search

    def translate(self, sentences, *, num_best=None, **options):
        """A Translation of each sentence, in order; with `num_best` a list of that many.

        options: beam_size, alpha, length_penalty, max_extra_length in place of the configuration's;
        or `sample=True` with temperature, top_k, top_p and seed. An empty sentence stays empty; one
        beyond the largest bucket is truncated and counted in `num_truncated`.
        """
        if isinstance(sentences, str):
            raise ValueError("translate takes a list of sentences: translate([text])[0].")
        options = Search.from_config(self.config.decoding, num_best=num_best or 1, **options)
        run_search = self._search(replace(options, seed=0))  # the seed is no part of the program
        sentences = list(sentences)
        results = [[Translation("", 0.0, 0.0)] for _ in sentences]
        places = [i for i, sentence in enumerate(sentences) if sentence.strip()]
        source = Ragged.encode(self.source_tokenizer, [sentences[i] for i in places])
        for indices, shape in self._plan(source.lengths):
            inputs, lengths, num_cut = fill_inputs(source, indices, shape)
            self.num_truncated += num_cut
            rngs = _sentence_rngs(options.seed, indices, len(inputs))
            found = jax.device_get(run_search(self.params, inputs, lengths, rngs))
            for row, index in enumerate(indices):
                results[places[index]] = self._read(found, row, options)
        return results if num_best else [best[0] for best in results]

    def largest_bucket(self):
        """The longest source that is translated whole: a training row, at least 256 pieces."""
        longest = max(256, self.config.data.row_length)
        if self.config.model.positions == "learned":
            longest = min(longest, self.config.model.max_positions)
        return longest

    def _plan(self, lengths):
        return plan_batches(lengths, self.largest_bucket(), self.config.decoding.batch_size)

    def _read(self, found, row, options):
        found = [array[row] for array in found]
        return [
            Translation(self.tokenizer.decode(ids), float(score), float(log_prob), _to_eos(ids))
            for ids, log_prob, score in zip(*found, strict=True)
            if score > -np.inf
        ][: options.num_best]

    def _make_search(self, options):
        return jax.jit(partial(search, self.model, options))

    # ---- scoring of given translations

    def score(self, sources, targets):
        """The Translations that `targets` are of `sources`, with log-probability and score."""
        if len(sources) != len(targets):
            raise ValueError(
                f"{len(sources)} sources cannot be scored with {len(targets)} targets."
            )
        source = Ragged.encode(self.source_tokenizer, list(sources))
        target = Ragged.encode(self.tokenizer, list(targets))
        penalty = make_length_penalty(
            self.config.decoding.length_penalty, self.config.decoding.alpha
        )
        scores = [None] * len(targets)
        for indices, (rows, length) in self._plan(np.maximum(source.lengths, target.lengths)):
            length = max(length, source.lengths[indices].max(), target.lengths[indices].max())
            batch = self._pairs(source, target, indices, rows, int(length))
            log_probs = jax.device_get(self._log_probs(self.params, batch))
            for index, log_prob in zip(indices, log_probs, strict=False):
                score = log_prob / penalty(float(target.lengths[index]))
                ids = target[index].tolist()
                scores[index] = Translation(targets[index], float(score), float(log_prob), ids)
        return scores

    def _pairs(self, source, target, indices, rows, length):
        """A `Batch` with one pair a row."""
        counts = (np.arange(rows) < len(indices)).astype(int)
        inputs = fill_rows(source, indices, counts, length)
        targets = fill_rows(target, indices, counts, length)
        return Batch(*inputs, shift_right(targets[0], targets[2]), *targets)

    @functools.cached_property
    def _log_probs(self):
        @jax.jit
        def log_probs(params, batch):
            logits = self.model.apply({"params": params}, batch, deterministic=True)
            per_row = jax.vmap(lambda *row: cross_entropy(*row)[0])
            return -per_row(logits, batch.targets, batch.weights)

        return log_probs

    def attention(self, source, translation):
        """Encoder-decoder attention of a `Translation` of a sentence.

        Returns (source pieces, target pieces, weights [layers, N, T, S]); row t is where the
        decoder looked when it chose target piece t.
        """
        sides = Ragged.encode(self.source_tokenizer, [source]), Ragged.of(translation.ids)
        batch = self._pairs(*sides, np.array([0]), 1, int(max(s.lengths[0] for s in sides)))
        _, sown = self.model.apply(
            {"params": self.params}, batch, deterministic=True, mutable="intermediates"
        )
        blocks = sown["intermediates"]["decoder"]
        weights = [
            blocks[f"layer_{i}"]["encoder_attention"]["weights"][0]
            for i in range(self.config.model.num_layers)
        ]
        weights = np.stack(jax.device_get(weights))[:, 0].transpose(0, 2, 1, 3)
        num_source, num_target = (int(s.lengths[0]) for s in sides)
        pieces = self.source_tokenizer.pieces(sides[0][0]), self.tokenizer.pieces(sides[1][0])
        return *pieces, weights[:, :, :num_target, :num_source]


def _to_eos(ids):
    """The ids of a hypothesis without the padding behind EOS."""
    return ids[: np.argmax(ids == EOS) + 1].tolist()


def _sentence_rngs(seed, indices, rows):
    """A PRNG key for each sentence [rows, 2], of the seed and its place in the input alone."""
    numbers = jnp.asarray(np.resize(indices, rows))
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.PRNGKey(seed), numbers)
