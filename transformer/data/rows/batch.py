"""`Batch`: sentence pairs in rows of fixed length, as the models read them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from transformer.data.rows.ragged import Ragged, count_up


class Batch(NamedTuple):
    """Sentence pairs in rows; every array is int32.

    A row holds any number of sentence pairs, one after another, and padding behind the last one.
    The k-th pair of a row has the segment number k on both sides, from 1; padding has 0. Positions
    count from 0 within each sentence. A row of two pairs, ([5, 6, EOS], [7, EOS]) and
    ([8, EOS], [9, 9, EOS]), S = T = 6, EOS = 2:

        inputs            5 6 2 8 2 0       targets           7 2 9 9 2 0
        input_segments    1 1 1 2 2 0       target_segments   1 1 2 2 2 0
        input_positions   0 1 2 0 1 0       target_positions  0 1 0 1 2 0
    """

    inputs: np.ndarray  # [B, S]
    input_segments: np.ndarray  # [B, S]
    input_positions: np.ndarray  # [B, S]
    targets: np.ndarray  # [B, T]
    target_segments: np.ndarray  # [B, T]
    target_positions: np.ndarray  # [B, T]

    @property
    def weights(self) -> np.ndarray:
        """[B, T] float32: 1 on targets, 0 on padding."""
        return (self.target_segments != 0).astype(np.float32)

    @classmethod
    def zeros(cls, num_rows: int, length: int) -> Self:
        """Returns `num_rows` empty rows of `length` on either side, for shapes only."""
        return cls(*(np.zeros((num_rows, length), np.int32) for _ in cls._fields))

    @classmethod
    def from_arrays(
        cls,
        inputs: Any,
        targets: Any = None,
        *,
        input_lengths: np.ndarray | None = None,
        pad: int = 0,
        xp: Any = np,
    ) -> Self:
        """Returns one sentence pair per row.

        inputs [B, S], targets [B, T]: ids, filled up with `pad`; without targets a row has a single
        one, as of a class. input_lengths [B]: the number of ids of each input, by default those
        that are not `pad`. xp: `jax.numpy` for arrays that JAX traces.
        """
        targets = xp.full((len(inputs), 1), pad + 1) if targets is None else targets

        def one_per_row(ids: Any, lengths: np.ndarray | None) -> tuple[Any, Any, Any]:
            ids = xp.asarray(ids, xp.int32)
            lengths = (ids != pad).sum(1) if lengths is None else lengths
            positions = xp.arange(ids.shape[1], dtype=xp.int32)
            segments = (positions < lengths[:, None]).astype(xp.int32)
            return ids, segments, positions * segments

        return cls(*one_per_row(inputs, input_lengths), *one_per_row(targets, None))

    @classmethod
    def from_pairs(
        cls,
        sides: Sequence[Ragged],
        indices: np.ndarray,
        pairs_per_row: np.ndarray,
        shape: tuple[int, int],
    ) -> Self:
        """Returns the sentence pairs `indices` one after another in rows of shape (S, T).

        sides: sources and targets. pairs_per_row [B]: how many pairs each row takes; they must fit.
        """
        source, target = (
            _fill_rows(side, indices, pairs_per_row, length)
            for side, length in zip(sides, shape, strict=True)
        )
        return cls(*source, *target)


def _fill_rows(
    ragged: Ragged, indices: np.ndarray, per_row: np.ndarray, length: int
) -> tuple[np.ndarray, ...]:
    """Returns (ids, segments, positions), each [B, length] int32, of sentences in rows.

    Each id is written to one flat index of the rows laid end to end. For sentences of 3, 2 and 2
    ids, of which row 0 takes two and row 1 takes one, and rows of length 6:

        per_row   2 1
        lengths   3 2 2
        row       0 0 1            of each sentence
        first     0 0 2            index of the first sentence of the same row
        starts    0 3 5            of each sentence, in all sentences laid end to end
        offset    0 3 0            of each sentence, in its row: starts - starts[first]
        position  0 1 2  0 1  0 1  of each id, in its sentence
        index     0 1 2  3 4  6 7  of each id: row * 6 + offset + position
    """
    ids, lengths = ragged.gather(indices)
    row = np.repeat(np.arange(len(per_row)), per_row)
    first = np.repeat(np.cumsum(per_row) - per_row, per_row)
    starts = np.cumsum(lengths) - lengths
    position = count_up(lengths)
    index = np.repeat(row * length + starts - starts[first], lengths) + position
    rows = np.zeros((3, len(per_row) * length), np.int32)
    rows[:, index] = ids, np.repeat(1 + count_up(per_row), lengths), position
    return tuple(rows.reshape(3, len(per_row), length))
