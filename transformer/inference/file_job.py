"""Answers each line of a text file: by its translation, its class or its continuation.

A text is divided into chunks of lines: the unit of work, of order and of resuming. A chunk depends
on the text alone, so that every host that reads the text finds the same chunks, and each host
computes its share of them. Only the current chunk is in memory.
"""

import gzip
import lzma
import os
import re
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice, repeat, zip_longest
from pathlib import Path
from typing import IO, Any

import jax

from transformer import console
from transformer.console import Phase, format_seconds, phase, quantity, say
from transformer.data.files.text import Lines, count_lines, open_lines
from transformer.files import storage
from transformer.inference import CHUNK_LINES
from transformer.inference.resumable_output import ResumableFile
from transformer.inference.translation import Translation, format_rows
from transformer.inference.translator import Translator
from transformer.parallel import hosts

FIRST_CHUNK_LINES = 64  # of a stream, whose reader should not wait long for the first line
LINE_BREAKS = re.compile(r"[\n\r]")
# By the suffix of the output; what several chunks become, one after another, is a valid file.
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
}


# ---- the text


@dataclass
class Chunk:
    """Consecutive lines of a text.

    start: number of lines before them. companions: a target or a prefix per line.
    fraction_read: of the bytes of the text, up to the end of the chunk; None if it is not known.
    """

    number: int
    start: int
    lines: list[str]
    companions: list[str] | None = None
    fraction_read: float | None = None

    @property
    def end(self) -> int:
        """The number of lines before the next chunk."""
        return self.start + len(self.lines)

    @cached_property
    def checksum(self) -> str:
        """Eight hexadecimal digits that depend on the lines and their companions."""
        text = "\n".join([*self.lines, *(self.companions or ())])
        return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def read_chunks(files: Sequence[Lines], sizes: Iterable[int]) -> Iterator[Chunk]:
    """Yields the chunks of a text and reads each only when it is asked for.

    files: the text and, if there are two, its companions, as many lines, else ValueError. sizes:
    the number of lines of the first, second, … chunk.
    """
    rows, sizes = _pair_lines(files), iter(sizes)
    number = start = 0
    while chunk := list(islice(rows, next(sizes))):
        texts, *others = (list(side) for side in zip(*chunk, strict=True))
        yield Chunk(number, start, texts, others[0] if others else None, files[0].fraction_read)
        number, start = number + 1, start + len(chunk)


def stream_sizes(num_lines: int) -> Iterator[int]:
    """Yields small sizes first, so that output appears soon: 64, 128, … up to `num_lines`."""
    size = FIRST_CHUNK_LINES
    while True:
        yield min(size, num_lines)
        size = min(2 * size, num_lines)


def _pair_lines(files: Sequence[Lines]) -> Iterator[tuple[str, ...]]:
    counts = [0] * len(files)
    for row in zip_longest(*files):
        counts = [n + (line is not None) for n, line in zip(counts, row, strict=True)]
        if None not in row:
            yield row
    _check_equal([file.name for file in files], counts)


def _check_equal(names: Sequence[str], counts: Sequence[int | None]) -> None:
    """Raises ValueError with both numbers of lines if they differ."""
    if len(set(counts)) > 1:
        raise ValueError(
            f"{names[0]} has {counts[0]} lines and {names[1]} has {counts[1]}; they must pair."
        )


# ---- the work


def check_files(output: str, *files: str) -> None:
    """Raises ValueError for an output that cannot be written, and for texts that do not pair."""
    if output and not storage.is_remote(output):
        folder = os.path.dirname(os.path.realpath(output))
        if os.path.isdir(output) or not os.path.isdir(folder):
            raise ValueError(f"--output must be a file in a folder that exists, not {output}.")
    counts = [count_lines(path) for path in files] if len(files) > 1 else []
    if None not in counts:
        _check_equal(files, counts)


@dataclass(frozen=True)
class FileJob:
    """A text, where the output goes, and what is written for a chunk of lines.

    files: the input, and perhaps one whose lines pair with its; local or gs://, also .gz and .xz;
      "-" is standard input.
    output: a file of the same kinds, or "" for standard output.
    answer: returns the lines of output for a chunk.
    identity: {name: value} of everything, besides the text, on which they depend; a job that was
      stopped is resumed only if it is the same.
    chunk_lines: lines that are computed together and kept when the job is stopped.
    """

    files: Sequence[str]
    output: str
    answer: Callable[[Chunk], Iterable[str]]
    identity: dict[str, Any]
    chunk_lines: int = CHUNK_LINES

    def run(self) -> None:
        """Does what is missing of the job; on several hosts each its share of the chunks.

        Raises ValueError for files that cannot be read or written or do not pair, and
        `ResumableError` if another host does not do its chunks.
        """
        check_files(self.output, *self.files)
        stream = open_stream(self.output)
        if jax.process_count() > 1 and (stream or "-" in self.files):
            raise ValueError(
                "Several hosts need files that all of them see as --input and --output."
            )
        files = [open_lines(path) for path in self.files]
        is_typed = "-" in self.files and console.is_terminal(sys.stdin)
        if is_typed:
            console.ask_for_lines("a text")
        name = files[0].name
        idle = Phase(name, 0, time.monotonic)  # a row would lie over what is typed
        with nullcontext(idle) if is_typed else phase(name) as this:
            progress = JobProgress(files, this)
            if stream:
                sizes = repeat(1) if is_typed else stream_sizes(self.chunk_lines)
                self._write_stream(stream, read_chunks(files, sizes), progress)
            else:
                self._write_file(read_chunks(files, repeat(self.chunk_lines)), progress)
        progress.finish(self.output)

    def _write_stream(
        self, stream: IO[bytes], chunks: Iterator[Chunk], progress: "JobProgress"
    ) -> None:
        """Writes each chunk at once; on a terminal, control characters are escaped."""
        for chunk in chunks:
            data = self.run_chunk(chunk)
            if console.is_terminal(stream):
                console.live_line().close()
                data = console.escaped(data.decode()).encode()
            stream.write(data)
            stream.flush()
            progress.add(chunk)

    def _write_file(self, chunks: Iterator[Chunk], progress: "JobProgress") -> None:
        """Writes every chunk that is missing and whose number is this host's, then the file."""
        host, num_hosts, start = jax.process_index(), jax.process_count(), time.monotonic()
        suffix, checksums = Path(self.output).suffix, []
        compress = COMPRESSORS.get(suffix, bytes)
        form = {"chunk_lines": self.chunk_lines, "packed as": suffix * (suffix in COMPRESSORS)}
        with closing(ResumableFile(self.output, self.identity | form)) as file:
            if num_finished := file.open():
                say(f"resuming: {quantity(num_finished, 'chunk')} done already")
            for chunk in chunks:
                place = chunk.number, chunk.checksum
                was_finished = file.has(*place)
                if not was_finished and chunk.number % num_hosts == host:
                    file.write(*place, compress(self.run_chunk(chunk)))
                checksums.append(chunk.checksum)
                progress.add(chunk, was_finished=was_finished)
            patience = max(hosts.WAIT_SECONDS, time.monotonic() - start)
            file.finish(checksums, compress(b""), patience)

    def run_chunk(self, chunk: Chunk) -> bytes:
        """Returns what is written for a chunk, in which a surrogate becomes "?".

        Raises ValueError, naming the lines of the chunk, for what the model refuses.
        """
        try:
            rows = self.answer(chunk)
            return "".join(f"{row}\n" for row in rows).encode(errors="replace")
        except ValueError as error:
            lines = f"{self.files[0]}, lines {chunk.start + 1:,} to {chunk.end:,}"
            raise ValueError(f"{lines}: {error}") from None


def open_stream(output: str) -> IO[bytes] | None:
    """Opens `output` if it is standard output (""), a pipe or a device; None for any other."""
    if not output:
        if sys.stdout is None:
            raise ValueError("Standard output is closed; name a file with --output.")
        return sys.stdout.buffer
    if storage.is_remote(output) or not os.path.exists(output):
        return None
    return None if stat.S_ISREG(os.stat(output).st_mode) else open(output, "wb")


class JobProgress:
    """Counts the finished chunks of a job in a phase, and warns of bad lines in its files."""

    def __init__(self, files: Sequence[Lines], this: Phase) -> None:
        self._files, self._phase = files, this
        this.unit = "lines"
        self._num_done_before = 0
        self._warned: dict[str, int] = {}

    def add(self, chunk: Chunk, *, was_finished: bool = False) -> None:
        """Counts a chunk. was_finished: whether an earlier start had finished it."""
        this, count = self._phase, len(chunk.lines)
        if was_finished:
            self._num_done_before += count
            this.num_done += count  # which says nothing of the pace
        else:
            this.advance(count)
        share = chunk.fraction_read
        this.total = round(this.num_done / share) if share else 0
        if not self._warned:  # at the first bad line, not after hours
            self._warn()

    def _warn(self) -> None:
        repairs = {name: count for file in self._files for name, count in file.repairs().items()}
        for name, count in repairs.items():
            if self._warned.get(name) != count:
                say(f"warning: {count:,} {name}")
        self._warned = repairs

    def finish(self, output: str = "") -> None:
        """Says what the whole job was; of one to a stream (output "") only if it took long."""
        self._warn()
        seconds, count = time.monotonic() - self._phase.start, self._phase.num_done
        if output or seconds >= console.SHOW_EVERY[1]:
            pace = quantity(round((count - self._num_done_before) / max(seconds, 1e-9)), "line")
            text = f"{quantity(count, 'line')} in {format_seconds(seconds)}, {pace}/s"
            if self._num_done_before:
                text += f"; {self._num_done_before:,} already done"
            say(f"{text}: {output}" if output else text)


# ---- what lines are answered by


def translate_file(
    translator: Translator,
    input: str,
    output: str = "",
    *,
    nbest: int = 0,
    scores: bool = False,
    jsonl: bool = False,
    alignments: bool = False,
    score: str = "",
    prefixes: str = "",
    chunk_lines: int = CHUNK_LINES,
    **options: Any,
) -> None:
    """Translates each line of a file, of any size and in order; resumes a job that was stopped.

    Args:
      input, output, chunk_lines: as of `FileJob`.
      nbest: translations per line (0: one), with their numbers and scores.
      scores: whether each translation is followed by its score.
      jsonl: whether a line is a JSON object.
      alignments: whether each translation is followed by its word alignment.
      score: a file of targets to be scored; nothing is translated then.
      prefixes: a file with the beginning of each translation.
      options: of the search, as `Translator.translate` takes them.

    Raises ValueError for options that the translator refuses, and as `FileJob.run`.
    """
    companion = score or prefixes
    form: dict[str, Any] = dict(nbest=nbest, scores=scores, jsonl=jsonl, alignments=alignments)
    form["score"] = bool(score)

    def answer(chunk: Chunk) -> Iterator[str]:
        best = _translations(translator, chunk, nbest, options, is_given=bool(score))
        if alignments:
            firsts = [several[0] for several in best]
            for first, pairs in zip(firsts, translator.align(chunk.lines, firsts), strict=True):
                first.alignment = pairs
        companions = chunk.companions or [""] * len(chunk.lines)
        lines = zip(chunk.lines, companions, best, strict=True)
        rows = (format_rows(n, *line, **form) for n, line in enumerate(lines, chunk.start))
        return chain.from_iterable(rows)

    answer(Chunk(0, 0, [], [] if companion else None))  # refuses impossible options
    identity = translator.identity() | form | {"options": options, "prefixes": bool(prefixes)}
    files = [input, companion] if companion else [input]
    _run(FileJob(files, output, answer, identity, chunk_lines), translator, "sentence")


def _translations(
    translator: Translator, chunk: Chunk, nbest: int, options: dict[str, Any], *, is_given: bool
) -> list[list[Translation]]:
    """Returns a list of translations per line, best first; the given target if `is_given`."""
    if is_given:
        return [[given] for given in translator.score(chunk.lines, chunk.companions or [])]
    options = options | {"prefixes": chunk.companions}
    if nbest:
        return translator.translate(chunk.lines, nbest=nbest, **options)
    return [[best] for best in translator.translate(chunk.lines, **options)]


def answer_file(
    model: Any, input: str, output: str = "", *, chunk_lines: int = CHUNK_LINES, **options: Any
) -> None:
    """Writes what a model answers to each line of a file, as `translate_file` does.

    model: a `Predictor` with a method `answers`, of a list of lines to one text for each of them.
    options: as that takes them, else ValueError.
    """

    def answer(chunk: Chunk) -> Iterator[str]:
        answers = model.answers(chunk.lines, **options)
        if len(answers) != len(chunk.lines):
            raise ValueError(f"the model gave {len(answers)} answers; there must be one a line.")
        return (LINE_BREAKS.sub(" ", text) for text in answers)

    answer(Chunk(0, 0, []))  # refuses impossible options
    identity = model.identity() | {"options": options}
    _run(FileJob([input], output, answer, identity, chunk_lines), model, "text")


def _run(job: FileJob, model: Any, line: str) -> None:
    """Runs a job, and warns of lines of which something was lost, on all hosts together."""
    before = model.num_truncated
    job.run()
    number = str(model.num_truncated - before).encode()
    if total := sum(map(int, hosts.gather_from_hosts(number))):
        say(f"warning: {quantity(total, line)} {model.truncation}")
