"""What is to be done with a text, as the flags of eval.py say it: translate, or score targets."""

import os
import sys
import zlib
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from transformer import storage
from transformer.checkpoint.fingerprint import fingerprints
from transformer.data.text_files import count_lines, open_lines
from transformer.inference.chunks import CHUNK_LINES, Chunk, check_equal, read_chunks, stream_sizes
from transformer.inference.output_formats import write_chunk


@dataclass(frozen=True)
class Job:
    """Fields are the flags of those names.

    score: a file of targets, whose log-probabilities are wanted; prefixes: one of beginnings that
    are forced; options: of the search, in place of the configuration's.
    """

    input: str
    output: str = ""
    nbest: int = 0
    scores: bool = False
    jsonl: bool = False
    score: str = ""
    prefixes: str = ""
    chunk_lines: int = CHUNK_LINES
    options: dict = field(default_factory=dict)

    @property
    def style(self):
        """The name of its format."""
        if self.score:
            return "log_probs_jsonl" if self.jsonl else "log_probs"
        chosen = {"jsonl": self.jsonl, "nbest": self.nbest, "scores": self.scores}
        return next((name for name, is_chosen in chosen.items() if is_chosen), "text")

    @property
    def files(self):
        """What is read: the input, and the targets or prefixes of its lines."""
        return [path for path in (self.input, self.score or self.prefixes) if path]

    def check(self):
        """ValueError for what makes no sense together, or cannot be read or written."""
        given = [name for name in ("nbest", "scores", "prefixes") if getattr(self, name)]
        given += self.options
        if self.score and given:
            raise ValueError(f"--score searches for nothing: leave out --{given[0]}.")
        if self.scores and (self.nbest or self.jsonl):
            raise ValueError("--scores goes without --nbest and --jsonl, which show them anyway.")
        if self.chunk_lines < 1 or self.nbest < 0:
            raise ValueError("--chunk_lines must be at least 1, and --nbest at least 0.")
        if self.files == ["-", "-"]:
            raise ValueError("Only one file can be standard input (-).")
        self._check_places()

    def _check_places(self):
        output = self.output
        if output and not storage.is_remote(output):
            folder = os.path.dirname(os.path.realpath(output))
            if os.path.isdir(output) or not os.path.isdir(folder):
                raise ValueError(f"--output must be a file in a folder that exists, not {output}.")
        counts = [count_lines(path) for path in self.files]
        if len(counts) == 2 and None not in counts:
            check_equal(self.files[0], counts[0], self.files[1], counts[1])

    def open(self):
        """The `Lines` of each file."""
        return [open_lines(path) for path in self.files]

    def read_chunks(self, files):
        """The chunks of those `Lines`; the first are small if somebody may wait for them."""
        sizes = repeat(self.chunk_lines)
        if not self.output:
            at_terminal = self.input == "-" and sys.stdin and sys.stdin.isatty()
            sizes = repeat(1) if at_terminal else stream_sizes(self.chunk_lines)
        return read_chunks(*files, sizes=sizes)

    def work(self, translator, chunk):
        """(bytes that are the lines of a chunk in the format that is wanted, their pieces)."""
        ask = self._score if self.score else self._translate
        try:
            found = ask(translator, chunk)
        except ValueError as error:
            if not chunk.lines:
                raise
            place = f"{self.input}, lines {chunk.start + 1:,} to {chunk.end:,}"
            raise ValueError(f"{place}: {error}") from None
        found = found if self.nbest else [[translation] for translation in found]
        return write_chunk(self.style, chunk, found), sum(len(best[0].ids) for best in found)

    def _score(self, translator, chunk):
        return translator.score(chunk.lines, chunk.companions)

    def _translate(self, translator, chunk):
        options = self.options | {"nbest": self.nbest or None, "prefixes": chunk.companions}
        return translator.translate(chunk.lines, **options)

    def check_options(self, translator):
        """ValueError for options of the search that it refuses, before anything is written."""
        nothing = [] if len(self.files) == 2 else None
        self.work(translator, Chunk(0, 0, [], nothing))

    def settings(self, translator):
        """{name: value} of all that the lines of a chunk depend on, besides its text."""
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
            "prefixes": bool(self.prefixes),
            "chunk_lines": self.chunk_lines,
            "packed as": Path(self.output).suffix if self.output.endswith((".gz", ".xz")) else "",
        }
