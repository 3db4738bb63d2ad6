"""BPE-dropout: the pairs of a batch are segmented anew each time that one shows them.

Provilkov, Emelianenko and Voita (2020), "BPE-Dropout: Simple and Effective Subword Regularization",
Algorithm 1: as BPE, but before each merge every possible one is dropped with the probability p.

The best segmentation of a sentence goes in, as ids, and one drawn at random comes out. What is
drawn depends on a key of the sentence alone; SentencePiece's own sampling is another one (it drops
a merge for good), and what it draws depends on its version and on what was drawn before.
"""

import math
from collections.abc import Sequence

import numpy as np

from transformer.data.rows.epoch_plan import mix
from transformer.data.rows.ragged import Ragged, count_up
from transformer.data.tokenizers.sentencepiece import (
    SentencePieceTokenizer,
    Tokenizer,
    read_spec,
)

NO_MERGE = np.iinfo(np.int32).max  # the rank of two symbols that cannot be merged
WIDER = 1.3  # words are merged together with others that are up to so many times as long
SAMPLE = 4096  # sentences from which the growth is measured
STEP = 0x9E3779B97F4A7C15  # between the keys of a word's merges; 2⁶⁴ / golden ratio, as SplitMix64


class BpeDropout:
    """Segments sentences at random: `BpeDropout(tokenizer, rate)(sentences, keys)`."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        """Takes the vocabulary and p, above 0; raises ValueError unless it is SentencePiece BPE."""
        spec = read_spec(tokenizer.model) if isinstance(tokenizer, SentencePieceTokenizer) else None
        if spec is None or spec.trainer_spec.model_type != spec.trainer_spec.BPE:
            raise ValueError(
                f"data.subword_dropout={rate} drops merges of SentencePiece BPE, which {tokenizer} "
                f"has not: set it to 0, or give a SentencePiece model of model_type=bpe."
            )
        self.rate = rate
        self.num_pieces = len(spec.pieces)  # as an id: no piece, as in front of a word
        pieces = [p.piece if p.type == p.NORMAL else "" for p in spec.pieces]
        ids = {piece: i for i, piece in enumerate(pieces) if piece}
        self._characters = Ragged.from_lists(
            [ids[c] for c in piece] if piece and ids.keys() >= {*piece} else [i]
            for i, piece in enumerate(pieces)
        )
        # No merge connects the first piece of a word with the piece before it.
        is_split_at_spaces = not any("▁" in piece[1:] for piece in pieces)
        self._begins_word = np.array([is_split_at_spaces and p.startswith("▁") for p in pieces])
        # Two pieces that are one together, as left · (V + 1) + right; the best merge has rank 0.
        by_score = sorted(ids, key=lambda piece: -spec.pieces[ids[piece]].score)
        ranks = {
            ids[piece[:cut]] * (self.num_pieces + 1) + ids[piece[cut:]]: rank
            for rank, piece in enumerate(by_score)
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        self._merges = np.array(sorted([*ranks, (self.num_pieces + 1) ** 2]))
        self._ranks = np.array([ranks.get(m, NO_MERGE) for m in self._merges.tolist()], np.int32)
        self._piece_of_rank = np.array([ids[piece] for piece in by_score], np.int32)

    def __call__(self, sentences: Ragged, keys: np.ndarray) -> Ragged:
        """Returns other segmentations of the same sentences; keys: a random uint64 of each.

        A word of c characters in s pieces takes c - s merges without dropout. Where the best merge
        is dropped before none of them, which is known without merging, it stays as it is; for
        p = 0.1 two words of three do.
        """
        if not len(sentences):
            return sentences
        ids, lengths = sentences.gather(np.arange(len(sentences)))
        first_pieces = np.cumsum(lengths) - lengths
        begins = self._begins_word[ids]
        begins[first_pieces] = True
        starts = np.flatnonzero(begins)
        words = Ragged(ids, starts, np.diff(starts, append=len(ids)))
        first_words = np.searchsorted(starts, first_pieces)
        num_words = np.diff(first_words, append=len(words))
        keys = _draw(np.repeat(keys, num_words), count_up(num_words))
        num_characters = np.add.reduceat(self._characters.lengths[ids], starts)
        num_merges = num_characters - words.lengths
        word = np.repeat(np.arange(len(words)), num_merges)
        drops = _uniform(keys[word], count_up(num_merges)) < self.rate
        changed = np.flatnonzero(np.bincount(word[drops], minlength=len(words)))
        characters, _ = self._characters.gather(words.gather(changed)[0])
        segmented = Ragged.from_lengths(characters, num_characters[changed])
        self._merge_all(segmented, keys[changed])
        words.flat = np.concatenate([ids, segmented.flat])
        words.starts[changed] = len(ids) + segmented.starts
        words.lengths[changed] = segmented.lengths
        flat, lengths = words.gather(np.arange(len(words)))
        return Ragged.from_lengths(flat, np.add.reduceat(lengths, first_words))

    def _merge_all(self, words: Ragged, keys: np.ndarray) -> None:
        """Merges the characters of words, in place, those of about the same length at once."""
        num_characters, width = words.lengths.copy(), 1
        while width < num_characters.max(initial=0):
            narrower, width = width, max(width + 1, int(width * WIDER))
            group = np.flatnonzero((num_characters > narrower) & (num_characters <= width))
            symbols = np.full((len(group), width + 2), self.num_pieces, np.int32)
            is_used = np.arange(width) < num_characters[group, None]
            symbols[:, 1:-1][is_used] = words.gather(group)[0]
            symbols = self._merge(symbols, keys[group])
            used = symbols != self.num_pieces
            words.lengths[group] = used.sum(1)
            words.flat[words.places(group)] = symbols[used]

    def _merge(self, symbols: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Merges two symbols of each word at a time until none are left that may be merged.

        symbols [words, width]: V, no piece, in front of each word and behind it. Returns the same.
        """
        result = np.full_like(symbols, self.num_pieces)
        ranks = self._rank(symbols[:, :-1], symbols[:, 1:])
        words, nth = np.arange(len(symbols)), 0
        while len(words):
            place = self._choose(ranks, _uniform(keys, np.array([nth])))
            rank = ranks[np.arange(len(words)), place]
            going = rank != NO_MERGE
            result[words[~going], : symbols.shape[1]] = symbols[~going]
            words, symbols, ranks, keys, place, rank = (
                array[going] for array in (words, symbols, ranks, keys, place, rank)
            )
            row, nth = np.arange(len(words)), nth + 1
            symbols[row, place] = self._piece_of_rank[rank]
            symbols, ranks = _without(symbols, place + 1), _without(ranks, place)
            for first in (place - 1, place):
                ranks[row, first] = self._rank(symbols[row, first], symbols[row, first + 1])
        return result

    def _choose(self, ranks: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Returns the place of the best merge that is not dropped in each word; else of NO_MERGE.

        ranks [words, width]. The k best ones are dropped with the probability pᵏ, so that one
        number u for each word, uniform between 0 and 1, says how many are: the largest k with
        u < pᵏ. For p = 0.1 and u = 0.03 it is 1, and the second best merge is made.
        """
        place = ranks.argmin(1)
        drops = np.flatnonzero(uniform < self.rate)
        num_dropped = (np.log(uniform[drops]) / math.log(self.rate)).astype(np.int64)
        in_order = np.argsort(ranks[drops], axis=1, kind="stable")
        last = np.minimum(num_dropped, ranks.shape[1] - 1)
        place[drops] = in_order[np.arange(len(drops)), last]
        return place

    def _rank(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Returns the ranks of the merges of symbols; the best has 0, impossible ones NO_MERGE."""
        numbers = left.astype(np.int64) * (self.num_pieces + 1) + right
        index = np.searchsorted(self._merges, numbers)
        return np.where(self._merges[index] == numbers, self._ranks[index], NO_MERGE)


def _without(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Returns rows [n, width - 1], which lack the value at one place [n] of each."""
    is_before = np.arange(rows.shape[1] - 1) < place[:, None]
    return np.where(is_before, rows[:, :-1], rows[:, 1:])


def _draw(keys: np.ndarray, nth: np.ndarray) -> np.ndarray:
    """Returns the n-th random uint64 of each key."""
    return mix(keys + nth.astype(np.uint64) * np.uint64(STEP))  # modulo 2⁶⁴


def _uniform(keys: np.ndarray, nth: np.ndarray) -> np.ndarray:
    """Returns the n-th random number between 0 and 1, both excluded, of each key."""
    return ((_draw(keys, nth) >> np.uint64(11)) + 0.5) * 2.0**-53


class SubwordDropout:
    """Segments both sides of the pairs of batches, where their rows have room."""

    def __init__(
        self, tokenizers: Sequence[Tokenizer], rate: float, sides: Sequence[Ragged], seed: int
    ) -> None:
        """Measures by a sample of `sides` how many times as many pieces each gets: `growth`.

        rate: of merges that are dropped. Raises ValueError unless both sides have pieces of BPE.
        """
        bpe = {tokenizer: BpeDropout(tokenizer, rate) for tokenizer in {*tokenizers}}
        self._bpe = [bpe[tokenizer] for tokenizer in tokenizers]
        sample = np.unique(np.linspace(0, len(sides[0]) - 1, SAMPLE).astype(np.int64))
        best, keys = [side.take(sample) for side in sides], random_keys((seed,), (len(sample),))
        self.growth = [
            float(segment(side, keys).lengths.sum() / side.lengths.sum())
            for segment, side in zip(self._bpe, best, strict=True)
        ]

    def planned_lengths(
        self, lengths: Sequence[np.ndarray], shape: tuple[int, int]
    ) -> list[np.ndarray]:
        """Returns the lengths of sources and targets that rows of a shape are planned with.

        They grow, up to those of a row: with growth 1.2 and rows of 10 lengths of 4, 9 and 11
        become 5, 10 and 11.
        """
        planned = []
        for side, growth, most in zip(lengths, self.growth, shape, strict=True):
            before = np.arange(int(side.max(initial=0)) + 1)
            after = np.maximum(before, np.minimum(np.rint(growth * before), most))
            planned.append(after.astype(side.dtype)[side])
        return planned

    def __call__(
        self,
        sides: Sequence[Ragged],
        keys: np.ndarray,
        pairs_per_row: np.ndarray,
        shape: tuple[int, int],
    ) -> list[Ragged]:
        """Returns both sides in other pieces, but for sentences for which a row has no room.

        sides: sentences in the order of their rows. keys [2, n]: a random uint64 of each.
        """
        row, chosen = np.repeat(np.arange(len(pairs_per_row)), pairs_per_row), []
        for segment, best, side_keys, row_length in zip(self._bpe, sides, keys, shape, strict=True):
            drawn = segment(best, side_keys)
            fits = have_room(best.lengths, drawn.lengths, row, row_length, side_keys)
            flat = np.concatenate([best.flat, drawn.flat])
            starts = np.where(fits, len(best.flat) + drawn.starts, best.starts)
            chosen.append(Ragged(flat, starts, np.where(fits, drawn.lengths, best.lengths)))
        return chosen


def have_room(
    best: np.ndarray, drawn: np.ndarray, row: np.ndarray, row_length: int, keys: np.ndarray
) -> np.ndarray:
    """Returns which sentences may be as drawn, so that no row is too long: [n], boolean.

    best, drawn, row [n]: the lengths of a sentence in either segmentation, and its row, in order.
    The sentences of a row take the room there is in the order of their random keys. A row for 8
    pieces, whose sentences have 2 1 1 1 at best and 4 1 3 2 as drawn, has room for 3 more: in the
    order 0, 1, 3, 2 these would have taken 2, 2, 3 and 5, and all but sentence 2 are as drawn.
    """
    order = np.lexsort((keys, row))
    gained = np.maximum(drawn - best, 0)[order]
    before = np.cumsum(gained) - gained
    taken = before - before[np.searchsorted(row, row)] + gained
    fits = np.empty(len(row), bool)
    fits[order] = taken <= (row_length - np.bincount(row, best))[row]
    return fits


def random_keys(seed: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Returns random uint64 in an array of this shape."""
    return np.random.default_rng(seed).integers(2**64, size=shape, dtype=np.uint64)
