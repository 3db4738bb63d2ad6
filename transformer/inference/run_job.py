"""Runs a job chunk by chunk: each chunk once, on one of the hosts, also after an interruption.

Only the current chunk is in memory.
"""

import json
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import jax

from transformer.console import live_line, quantity
from transformer.inference.chunks import Chunk
from transformer.inference.file_job import FileJob, ModelT
from transformer.inference.job_progress import JobProgress
from transformer.inference.output_formats import make_compressor
from transformer.inference.resumable_output import Parts, Stream, open_stream
from transformer.parallel import hosts
from transformer.signals import DONE, RESUMABLE, Interruption, exit_code_of

POLL_EVERY = 1  # seconds

Say = Callable[[str], None]  # prints a line for a person


class Sink(Protocol):
    """Where the output of chunks goes: a `Stream` or `Parts`."""

    def has(self, chunk: Chunk) -> bool:
        """Returns whether the output of the chunk exists already."""
        ...

    def write(self, chunk: Chunk, data: bytes) -> None:
        """Writes the output of the chunk."""
        ...


def run_job(model: ModelT, job: FileJob[ModelT], *, say: Say, command: str) -> int:
    """Runs a job to its end or to an `Interruption`; returns an exit code of `signals`.

    model: what computes the output. command: the command that resumes the job, to be shown when a
    signal stops it. Other code than `DONE` means that other hosts may be left waiting: the caller
    should end the process. Raises ValueError for options that the model refuses and files that
    cannot be read or written.
    """
    job.check_options(model)
    stream, is_alone = open_stream(job.output), jax.process_count() == 1
    if not is_alone and (stream or "-" in job.files):
        raise ValueError("Several hosts need files that all of them see as --input and --output.")
    sink = stream or Parts(job.output, job.identity(model))
    parts = sink if isinstance(sink, Parts) else None
    try:
        return _run(model, job, sink, say)
    except Interruption as interruption:
        say("stopped" + (f"; finished chunks are kept; resume with: {command}" if parts else ""))
        return exit_code_of(interruption.number)
    finally:
        if parts:
            parts.close(is_alone=is_alone)


def _run(model: ModelT, job: FileJob[ModelT], sink: Stream | Parts, say: Say) -> int:
    files, parts = job.open(), sink if isinstance(sink, Parts) else None
    if parts:
        _open_on_all_hosts(parts, say)
    compress, is_first = make_compressor(job.output), jax.process_index() == 0
    line = live_line() if is_first else None
    progress = JobProgress(files, say, line)

    def work(chunk: Chunk) -> tuple[bytes, int]:
        data, num_tokens = job.run_chunk(model, chunk)
        return compress(data), num_tokens

    share = jax.process_index(), jax.process_count()
    checksums = run_chunks(job.read_chunks(files), work, sink, progress, *share)
    if parts:
        patience = max(hosts.WAIT_SECONDS, 10 * progress.longest)
        if is_first and not wait_for_parts(parts, checksums, patience, say):
            return RESUMABLE
        _join_on_all_hosts(parts, checksums, compress(b""))
    progress.finish(job.output)
    return DONE


def run_chunks(
    chunks: Iterable[Chunk],
    work: Callable[[Chunk], tuple[bytes, int]],
    sink: Sink,
    progress: JobProgress,
    host: int = 0,
    num_hosts: int = 1,
) -> list[str]:
    """Works on every chunk that `sink` lacks and that is this host's; returns all checksums.

    work: returns (output, number of target tokens) of a chunk. The missing chunks are dealt out in
    turn: if chunks 1, 2 and 4 of 0 to 5 are missing, host 0 of 2 works on 1 and 4, host 1 on 2.
    """
    checksums, num_missing = [], 0
    for chunk in chunks:
        start, num_tokens = time.monotonic(), None
        checksums.append(chunk.checksum)
        was_finished = sink.has(chunk)
        if not was_finished and num_missing % num_hosts == host:
            data, num_tokens = work(chunk)
            sink.write(chunk, data)
        num_missing += not was_finished
        progress.add(chunk, was_finished, num_tokens, time.monotonic() - start)
    return checksums


def _open_on_all_hosts(parts: Parts, say: Say) -> None:
    """Opens the folder on the first host, and lets all hosts agree on which chunks are finished."""
    is_first = jax.process_index() == 0
    if is_first:
        parts.open()
    finished = parts.finished() if is_first else {}
    finished = json.loads(hosts.gather_from_hosts(json.dumps(finished).encode())[0])
    hosts.check_same(
        f"what they are to do, or in what they see in {parts.folder}", parts.shared_state
    )
    parts.resume({int(number): checksum for number, checksum in finished.items()})
    if finished:
        say(f"resuming: {quantity(len(finished), 'chunk')} done already, in {parts.folder}")


def wait_for_parts(parts: Parts, checksums: list[str], patience: float, say: Say) -> bool:
    """Waits for the chunks of the other hosts; False after `patience` seconds without a new one."""
    missing, since, said = parts.missing(checksums), time.monotonic(), time.monotonic()
    while missing:
        time.sleep(POLL_EVERY)
        still_missing, now = parts.missing(checksums), time.monotonic()
        if len(still_missing) < len(missing):
            missing, since = still_missing, now
        count = quantity(len(missing), "chunk")
        if missing and now - since > patience:
            say(
                f"error: {count} of other hosts missing in {parts.folder}, and none came "
                f"within {patience:.0f} s; start the same command on every host again."
            )
            return False
        if missing and now - said > hosts.SAY_EVERY:
            said = now
            say(f"waiting for {count} of other hosts: {now - since:.0f} s")
    return True


def _join_on_all_hosts(parts: Parts, checksums: list[str], empty: bytes) -> None:
    """Joins the parts on the first host; the others wait until the file is written."""
    is_first = jax.process_index() == 0
    if is_first:
        parts.join(checksums, empty)
    while not parts.is_joined:
        time.sleep(POLL_EVERY)
    hosts.wait_for_all("the joined file")
    if is_first:
        parts.remove()
