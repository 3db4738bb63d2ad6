"""Remembers the ids of words, so that SentencePiece splits each of them once: the same ids, sooner.

A word begins where a space ends, and the ids of a sentence are those of its words one after
another, if no piece of the vocabulary continues beyond a space (`splits_by_word`). Words repeat:
a text of natural language is tokenised about five times as fast.
"""

from threading import Lock

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from transformer.special_tokens import EOS

MOST_WORDS = 2**18  # that are remembered: the first, among which are the frequent ones
LONGEST_WORD = 32  # characters of a word that is remembered: Japanese has no spaces
END = "\ud800"  # stands for the end of a sentence, where it is a word: it is no character of a text


class WordIds(dict[str, int]):
    """The number of each word, and the ids of each number.

    Numbers count from 0 for words that are remembered, and down from -1 for those that are not and
    that the text at hand has, so that they index what is laid end to end: ids of the former, ids of
    the latter backwards. A signal may raise an error between any two operations, after which the
    object is used again: what belongs together is assigned at once.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__({END: 0})
        self._processor, self._encoding = processor, Lock()
        self._kept: dict[int, list[int]] = {}  # by their numbers; not yet in the arrays below
        self._passing: list[list[int]] = []
        self._arrays = np.array([EOS], np.int32), np.array([1])

    def __missing__(self, word: str) -> int:
        ids = self._processor.encode(word)
        if len(word) > LONGEST_WORD or len(self) >= MOST_WORDS:
            self._passing.append(ids)
            return -len(self._passing)
        self._kept[len(self)] = ids  # before the word has the number, which is free until then
        self[word] = len(self)
        return len(self) - 1

    def encode(self, sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the ids of all sentences, EOS behind each; the number of ids of each)."""
        if not sentences:
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        words = (f" {END} ".join(sentences) + f" {END}").split(" ")
        with self._encoding:
            numbers = np.fromiter(map(self.__getitem__, words), np.int64, len(words))
            flat, lengths = self._all_arrays()
        starts = np.cumsum(lengths) - lengths
        counts = lengths[numbers]
        ends = np.cumsum(counts)
        ids = flat[np.repeat(starts[numbers] - ends + counts, counts) + np.arange(ends[-1])]
        return ids, np.diff(ends[numbers == 0], prepend=0)

    def _all_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns (ids of all numbers end to end, how many each number has)."""
        new = range(len(self._arrays[1]), len(self))
        if new:
            self._arrays = _extended(*self._arrays, [self._kept[number] for number in new])
            self._kept = {}
        if not self._passing:
            return self._arrays
        passing, self._passing = self._passing[::-1], []
        return _extended(*self._arrays, passing)


def _extended(
    flat: np.ndarray, lengths: np.ndarray, lists: list[list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    more = np.array([i for ids in lists for i in ids], np.int32)
    return np.append(flat, more), np.append(lengths, [len(ids) for ids in lists])


def splits_by_word(model: bytes) -> bool:
    """Whether a SentencePiece model splits each word by itself, wherever it stands.

    BPE merges neighbours in the order of their pieces' scores, so words cannot disturb each other
    where no piece has "▁", the sign of a space, behind its first character. A piece that a user
    defined may split words where it stands, unless it begins with "▁" as they do.
    """
    # pyrefly: ignore[missing-attribute]: protobuf makes the class when it is imported
    spec = sentencepiece_model_pb2.ModelProto.FromString(model)
    normalizer, trainer = spec.normalizer_spec, spec.trainer_spec
    return (
        trainer.model_type == trainer.BPE
        and trainer.byte_fallback
        and not trainer.treat_whitespace_as_suffix
        and not normalizer.precompiled_charsmap
        and normalizer.add_dummy_prefix
        and normalizer.remove_extra_whitespaces
        and normalizer.escape_whitespaces
        and not any("▁" in p.piece[1:] for p in spec.pieces)
        and all(p.piece[0] == "▁" for p in spec.pieces if p.type == p.USER_DEFINED)
    )
