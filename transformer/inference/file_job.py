"""Answers each line of a text file: by its translation, its class or its continuation.

A text is divided into chunks of lines: the unit of work, of order and of resuming. They depend on
the text alone, so that all hosts have the same and share them. Only the current one is in memory.
"""

import gzip
import json
import lzma
import os
import shutil
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count, islice, repeat, zip_longest
from pathlib import Path
from typing import IO, Any

import jax

from transformer import console
from transformer.console import Phase, format_seconds, phase, quantity, say
from transformer.data.files.text import Lines, count_lines, open_lines
from transformer.exit_codes import ResumableError
from transformer.files import storage
from transformer.files.parts import LOOK_EVERY, Parts, part_name
from transformer.inference.translation import format_rows
from transformer.inference.translator import Translator
from transformer.parallel import hosts

CHUNK_LINES = 8192  # which are computed together and kept when a job is stopped
FIRST_CHUNK_LINES = 64  # of a stream, whose reader should not wait long for the first line
# By the suffix of the output; what several chunks become, one after another, is a valid file.
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
}


# ---- the text


@dataclass
class Chunk:
    """Consecutive lines of a text, behind `start` others.

    companions: their targets or prefixes. is_new: whether no earlier start had finished them.
    """

    number: int
    start: int
    lines: list[str]
    companions: list[str] | None = None
    is_new: bool = field(default=True, init=False)

    @cached_property
    def checksum(self) -> str:
        """Eight hexadecimal digits that depend on the lines and their companions."""
        text = "\n".join([*self.lines, *(self.companions or ())])
        return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def read_chunks(files: Sequence[Lines], sizes: Iterable[int], this: Phase) -> Iterator[Chunk]:
    """Yields the chunks of a text, an empty one if it is empty, and reads each when asked for it.

    files: the text and, if there are two, its companions, as many lines, else ValueError. sizes:
    the number of lines of the first, second, … chunk. this: shows how many lines are done. Warns of
    bad lines at the first of them, not after hours, and at the end.
    """
    this.unit, rows, start, warned = "lines", zip_longest(*files), 0, Counter[str]()
    for number, size in enumerate(sizes):
        lines = list(islice(rows, size))
        if not lines and number > 0:
            break
        if any(None in row for row in lines):
            raise ValueError(f"{files[0].name} and {files[1].name} differ in length: pair them.")
        chunk = Chunk(number, start, *([row[side] for row in lines] for side in range(len(files))))
        yield chunk
        start += len(lines)
        if chunk.is_new:
            this.advance(len(lines))
        else:  # which says nothing of the pace
            this.num_done = start
        share = files[0].fraction_read
        this.total = round(start / share) if share else 0
        warned = warned or _warn(files, warned)
    _warn(files, warned)


def _warn(files: Sequence[Lines], warned: Counter[str]) -> Counter[str]:
    """Says how many lines were repaired, unless that is `warned` of; returns how many."""
    repairs = sum((file.repairs.named() for file in files), Counter[str]())
    for name in repairs - warned:
        say(f"warning: {repairs[name]:,} {name}")
    return repairs


def check_files(output: str, *files: str, may_replace: bool = True) -> None:
    """Raises ValueError for an output that would replace a file, and for texts that do not pair.

    output: a file, or "" for standard output. may_replace: whether it may be there already.
    """
    for file in files if output else ():
        local = os.path.expanduser(file)
        are_there = os.path.exists(output) and os.path.exists(local)
        if file == output or (are_there and os.path.samefile(output, local)):
            raise ValueError(f"--output={output} is read, too, and would be lost: name another.")
    is_there = output and not may_replace and storage.locate(output).is_file()
    if is_there and not ResumableFile(output, {}).is_started:
        raise ValueError(f"{output} exists: name another --output, or add --overwrite.")
    counts = [count_lines(path) for path in files] if len(files) > 1 else []
    if None not in counts and len(set(counts)) > 1:
        a, b = (f"{path} has {count} lines" for path, count in zip(files, counts, strict=True))
        raise ValueError(f"{a} and {b}; they must pair.")


class ResumableFile:
    """A file that appears when all chunks of its job are finished.

    Until then the chunks are parts in the folder OUTPUT.parts, named by their numbers and
    checksums, so that a job that was stopped, or is shared by several hosts, does no chunk twice.

    identity: {name: value} of what must be equal for a stopped job to be resumed.
    """

    def __init__(self, output: str, identity: dict[str, Any]) -> None:
        output = output if storage.is_remote(output) else os.path.realpath(output)
        self.output = storage.locate(output)
        self.folder = self.output.with_name(self.output.name + ".parts")
        self.parts, self._about = Parts(self.folder), self.folder / "about.json"
        self._identity = json.dumps(identity, indent=2)

    @property
    def is_started(self) -> bool:
        """Whether a job was stopped, or still runs, that writes this output."""
        return self._about.is_file()

    @contextmanager
    def opened(self) -> Generator[dict[int, str]]:
        """Opens the folder on all hosts; yields {number: checksum} of the chunks that it has.

        It is removed at the end if there is no chunk in it. Raises ValueError if it is in use, of
        another job, or another folder on another host.
        """
        is_first, lock = jax.process_index() == 0, nullcontext()
        if is_first and not storage.is_remote(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            lock = storage.take_lock(self.folder / "lock", "--output")
        with lock:
            if is_first:
                has_chunks = bool(self.parts.finished())
                before = json.loads(self._about.read_text() if has_chunks else self._identity)
                for name, now in json.loads(self._identity).items():
                    difference = f"holds chunks made with {name} {before.get(name)}, not {now}"
                    self.check(before.get(name) == now, difference)
                storage.write_atomically(self._about, self._identity)
            hosts.wait_for_all("the folder of the output")
            hosts.check_same(
                f"what they are to do, or in what they see in {self.folder}",
                lambda: f"{self._identity} {self.is_started}".encode(),
            )
            try:
                yield self.parts.finished()
            finally:
                if jax.process_count() == 1 and not self.parts.finished():
                    self._remove()

    def check(self, is_same: bool, difference: str) -> None:
        """Raises ValueError, which says how it differs, if the folder is not of the same job."""
        if not is_same:
            raise ValueError(
                f"{self.folder} {difference}: start with the same, name another --output, or "
                f"delete the folder to begin anew."
            )

    def finish(self, wanted: dict[int, str], patience: float) -> None:
        """Waits for the chunks of other hosts, joins all and removes them.

        wanted: {number: checksum} of all chunks, in order, else ValueError. patience: seconds
        without a new chunk after which the other hosts are given up (`ResumableError`).
        """
        if jax.process_index() == 0:
            name = "waiting for the other hosts' chunks"
            if missing := self.parts.wait_for(set(wanted), patience, name):
                raise ResumableError(
                    f"{quantity(len(missing), 'chunk')} of other hosts missing in {self.folder} "
                    f"for {patience:.0f} s; start the same command on every host again."
                )
            self.check(self.parts.finished() == wanted, "belongs to a longer input")
            with storage.open_atomically(self.output) as file:
                for number, checksum in wanted.items():
                    with (self.folder / part_name(number, checksum)).open("rb") as part:
                        shutil.copyfileobj(part, file, 2**20)
            self._remove()
        while self.is_started:
            time.sleep(LOOK_EVERY)

    def _remove(self) -> None:
        """Removes what the job has written; the folder too, unless something else is in it."""
        for number, checksum in self.parts.finished().items():
            (self.folder / part_name(number, checksum)).unlink(missing_ok=True)
        self.parts.remove_unfinished()
        for name in ("about.json", "lock"):
            (self.folder / name).unlink(missing_ok=True)
        if not storage.is_remote(self.folder):
            with suppress(OSError):
                os.rmdir(self.folder)


# ---- the work


@dataclass(frozen=True)
class FileJob:
    """A text, where the output goes, and what is written for a chunk of lines.

    files: the input, and perhaps one whose lines pair with its; local or gs://, also .gz and .xz;
      "-" is standard input. output: a file of the same kinds, or "" for standard output.
    model: a `Predictor`, which counts the lines of which something was lost.
    answer: returns the lines of output for a chunk. options: {name: value} of all on which they
      depend, besides text and model; a job that was stopped is resumed only if it is the same.
    """

    files: Sequence[str]
    output: str
    chunk_lines: int
    model: Any
    answer: Callable[[Chunk], Iterable[str]]
    options: dict[str, Any]

    def run(self) -> None:
        """Does what is missing of the job; on several hosts each its share of the chunks.

        Raises ValueError for impossible options and files that cannot be read or written or do not
        pair, and `ResumableError` if another host does not do its chunks.
        """
        empty = Chunk(0, 0, [], [] if len(self.files) > 1 else None)
        list(self.answer(empty))  # which refuses wrong options
        check_files(self.output, *self.files)
        stream, before = open_stream(self.output), self.model.num_truncated
        if jax.process_count() > 1 and (stream or "-" in self.files):
            raise ValueError("Several hosts need --input and --output that all of them see.")
        is_typed = "-" in self.files and console.is_terminal(sys.stdin)
        if is_typed:
            say("Type a text per line; Ctrl-D ends.")
        idle = Phase("", 0, time.monotonic)  # a row would lie over what is typed
        growing = (min(FIRST_CHUNK_LINES << min(n, 20), self.chunk_lines) for n in count())
        sizes = repeat(1) if is_typed else growing if stream else repeat(self.chunk_lines)
        with nullcontext(idle) if is_typed else phase(self.files[0]) as this:
            chunks = read_chunks([open_lines(path) for path in self.files], sizes, this)
            self._to_stream(stream, chunks) if stream else self._to_file(chunks)
        if self.output:
            seconds = format_seconds(time.monotonic() - this.start)
            say(f"{quantity(this.num_done, 'line')} in {seconds}: {self.output}")
        number = str(self.model.num_truncated - before).encode()
        if total := sum(map(int, hosts.gather_from_hosts(number))):
            say(f"warning: {quantity(total, 'line')} {self.model.truncation}")

    def _to_stream(self, stream: IO[bytes], chunks: Iterator[Chunk]) -> None:
        """Writes each chunk at once; on a terminal, commands are escaped."""
        for chunk in chunks:
            data = self.run_chunk(chunk)
            if console.is_terminal(stream):
                console.live_line.close()
                data = console.escaped(data.decode()).encode()
            stream.write(data)
            stream.flush()

    def _to_file(self, chunks: Iterator[Chunk]) -> None:
        """Writes this host's share of the chunks that are missing, then the file."""
        host, num_hosts, start = jax.process_index(), jax.process_count(), time.monotonic()
        compress = COMPRESSORS.get(Path(self.output).suffix, bytes)
        options = self.options | {"chunk_lines": self.chunk_lines}
        file, wanted = ResumableFile(self.output, self.model.identity() | options), {}
        with file.opened() as finished:
            if finished:
                say(f"resuming: {quantity(len(finished), 'chunk')} done already")
            for chunk in chunks:
                number, checksum = chunk.number, chunk.checksum
                is_same = finished.get(number, checksum) == checksum
                file.check(is_same, f"belongs to another input (chunk {number + 1} differs)")
                chunk.is_new = number not in finished
                if chunk.is_new and number % num_hosts == host:
                    data = compress(self.run_chunk(chunk))
                    file.parts.write(part_name(number, checksum), data)
                wanted[number] = checksum
            file.finish(wanted, max(hosts.WAIT_SECONDS, time.monotonic() - start))

    def run_chunk(self, chunk: Chunk) -> bytes:
        """Returns what is written for a chunk, in which a surrogate becomes "?".

        Raises ValueError, naming the lines of the chunk, for what the model refuses.
        """
        try:
            rows = self.answer(chunk)
            return "".join(f"{row}\n" for row in rows).encode(errors="replace")
        except ValueError as error:
            first, last = chunk.start + 1, chunk.start + len(chunk.lines)
            raise ValueError(f"{self.files[0]}, lines {first:,} to {last:,}: {error}") from None


def open_stream(output: str) -> IO[bytes] | None:
    """Opens `output` if it is standard output (""), a pipe or a device; None for any other."""
    if not output:
        if sys.stdout is None:
            raise ValueError("Standard output is closed; name a file with --output.")
        return sys.stdout.buffer
    if storage.is_remote(output) or os.path.isfile(output) or not os.path.exists(output):
        return None
    return open(output, "wb")


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
      input, output: as of `FileJob`.
      chunk_lines: lines that are computed together and kept when the job is stopped.
      nbest: translations per line (0: one), with their numbers and scores.
      scores: whether each translation is followed by its score.
      jsonl: whether a line is a JSON object.
      alignments: whether each translation is followed by its word alignment.
      score: a file of targets to be scored; nothing is translated then.
      prefixes: a file with the beginning of each translation.
      options: of the search, as `Translator.translate` takes them.

    Raises ValueError for options that the translator refuses, and as `FileJob.run`.
    """
    form: dict[str, Any] = dict(nbest=nbest, scores=scores, jsonl=jsonl, alignments=alignments)
    form["score"] = bool(score)

    def answer(chunk: Chunk) -> Iterator[str]:
        if score:
            scored = translator.score(chunk.lines, chunk.companions or [])
            best = [[translation] for translation in scored]
        else:
            how: dict[str, Any] = {"nbest": nbest or 1, "prefixes": chunk.companions} | options
            best = translator.translate(chunk.lines, **how)
        if alignments:
            firsts = [several[0] for several in best]
            for first, pairs in zip(firsts, translator.align(chunk.lines, firsts), strict=True):
                first.alignment = pairs
        for number, line in enumerate(zip(chunk.lines, best, strict=True), chunk.start):
            yield from format_rows(number, *line, **form)

    given = form | {"options": options, "prefixes": bool(prefixes)}
    files = [input, *filter(None, [score or prefixes])]
    FileJob(files, output, chunk_lines, translator, answer, given).run()


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
        return (text.translate({10: " ", 13: " "}) for text in answers)  # its line breaks

    FileJob([input], output, chunk_lines, model, answer, {"options": options}).run()
