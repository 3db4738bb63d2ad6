"""Describes what to do with a text file: translate it, or score given targets."""

import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from transformer import storage
from transformer.checkpoint.fingerprint import fingerprints
from transformer.data.text_files import Lines, count_lines, open_lines
from transformer.inference.chunks import CHUNK_LINES, Chunk, check_equal, read_chunks, stream_sizes
from transformer.inference.output_formats import format_chunk
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator


@dataclass(frozen=True)
class Job:
    """A text and what to write for each of its lines; fields are named as the flags of eval.py.

    input, output: files, local or gs://, also .gz and .xz; input "-" is standard input and output
      "" standard output.
    nbest: translations per line (0: one), with their numbers and scores.
    scores: whether each translation is followed by its score.
    jsonl: whether a line is a JSON object.
    alignments: whether each translation is followed by its word alignment.
    score: a file of targets to be scored; nothing is translated then.
    prefixes: a file with the beginning of each translation.
    chunk_lines: lines that are translated together and kept when the job is stopped.
    options: search options, as `Translator.translate` takes them.
    """

    input: str
    output: str = ""
    nbest: int = 0
    scores: bool = False
    jsonl: bool = False
    alignments: bool = False
    score: str = ""
    prefixes: str = ""
    chunk_lines: int = CHUNK_LINES
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def style(self) -> str:
        """The name of its output format in `output_formats.STYLES`."""
        if self.alignments and not self.jsonl:
            return "alignments"
        if self.score:
            return "log_probs_jsonl" if self.jsonl else "log_probs"
        chosen = {"jsonl": self.jsonl, "nbest": self.nbest, "scores": self.scores}
        return next((name for name, is_chosen in chosen.items() if is_chosen), "text")

    @property
    def files(self) -> list[str]:
        """The files that are read: the input, and the targets or prefixes of its lines."""
        return [path for path in (self.input, self.score or self.prefixes) if path]

    def check(self) -> None:
        """Raises ValueError for files that cannot be written or do not pair."""
        output = self.output
        if output and not storage.is_remote(output):
            folder = os.path.dirname(os.path.realpath(output))
            if os.path.isdir(output) or not os.path.isdir(folder):
                raise ValueError(f"--output must be a file in a folder that exists, not {output}.")
        counts = [count_lines(path) for path in self.files]
        if len(counts) == 2 and counts[0] is not None and counts[1] is not None:
            check_equal(self.files[0], counts[0], self.files[1], counts[1])

    def open(self) -> list[Lines]:
        """Opens every file that is read."""
        return [open_lines(path) for path in self.files]

    def read_chunks(self, files: list[Lines]) -> Iterator[Chunk]:
        """Yields the chunks of the opened files; the first are small if a reader may wait."""
        sizes = repeat(self.chunk_lines)
        if not self.output:
            is_terminal = self.input == "-" and sys.stdin and sys.stdin.isatty()
            sizes = repeat(1) if is_terminal else stream_sizes(self.chunk_lines)
        return read_chunks(*files, sizes=sizes)

    def run_chunk(self, translator: Translator, chunk: Chunk) -> tuple[bytes, int]:
        """Returns (lines of output for a chunk, number of target tokens in them).

        Raises ValueError, naming the lines of the chunk, for what the translator refuses.
        """
        try:
            nbest = self._nbest(translator, chunk)
            if self.alignments:
                best = [found[0] for found in nbest]
                for one, pairs in zip(best, translator.align(chunk.lines, best), strict=True):
                    one.alignment = pairs
        except ValueError as error:
            if not chunk.lines:
                raise
            lines = f"{self.input}, lines {chunk.start + 1:,} to {chunk.end:,}"
            raise ValueError(f"{lines}: {error}") from None
        return format_chunk(self.style, chunk, nbest), sum(len(best[0].ids) for best in nbest)

    def _nbest(self, translator: Translator, chunk: Chunk) -> list[list[Translation]]:
        """Returns a list of Translations per line, best first; the given target if `score`."""
        if self.score:
            return [[t] for t in translator.score(chunk.lines, chunk.companions or [])]
        options = self.options | {"prefixes": chunk.companions}
        if self.nbest:
            return translator.translate(chunk.lines, nbest=self.nbest, **options)
        return [[t] for t in translator.translate(chunk.lines, **options)]

    def check_options(self, translator: Translator) -> None:
        """Raises ValueError for search options that the translator refuses."""
        companions = [] if len(self.files) == 2 else None
        self.run_chunk(translator, Chunk(0, 0, [], companions))

    def identity(self, translator: Translator) -> dict[str, Any]:
        """Returns {name: value} of everything, besides the text, that the output depends on.

        A stopped job is resumed only if all of it is the same.
        """
        values = translator.config.values()
        decoding = {
            setting.name: values[setting.name]
            for setting in translator.config.settings()
            if setting.name.startswith("decoding.") and setting.changes_result
        }
        tokenizers = (translator.source_tokenizer, translator.tokenizer)
        return {
            "checkpoint": translator.checkpoint,
            "parameters": zlib.crc32(repr(fingerprints(translator.params)).encode()),
            "vocabulary": [zlib.crc32(tokenizer.to_bytes()) for tokenizer in tokenizers],
            **decoding,
            "options": self.options,
            "format": f"{self.style} {self.nbest}".removesuffix(" 0"),
            "score": bool(self.score),
            **({"alignments": True} if self.alignments else {}),
            "prefixes": bool(self.prefixes),
            "chunk_lines": self.chunk_lines,
            "packed as": Path(self.output).suffix if self.output.endswith((".gz", ".xz")) else "",
        }
