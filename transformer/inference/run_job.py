"""A job done chunk by chunk: each once, by one of the hosts, and on from where it was stopped.

Only the chunk at hand is in memory.
"""

import json
import sys
import time

import jax

from transformer.console import LiveLine
from transformer.inference.job_progress import JobProgress
from transformer.inference.output_formats import make_packer
from transformer.inference.resumable_output import Parts, open_stream
from transformer.parallel import hosts
from transformer.signals import DONE, RESUMABLE, Interruption, Stopping

POLL_EVERY = 1  # seconds


def run_job(translator, job, *, say, command):
    """Does a `Job`; returns the exit code. command: the one that resumes it when it is stopped."""
    stopping = Stopping(patience=0)
    stopping.catch_signals()
    job.check_options(translator)
    stream, is_alone = open_stream(job.output), jax.process_count() == 1
    if not is_alone and (stream or "-" in job.files):
        raise ValueError("Several hosts need files that all of them see as --input and --output.")
    parts = None if stream else Parts(job.output, job.settings(translator))
    try:
        with stopping.at_once():
            return _do(translator, job, stream, parts, say)
    except Interruption:
        say("stopped" + (f"; finished chunks are kept, go on with: {command}" if parts else ""))
        return hosts.exit_process(stopping.exit_code)
    finally:
        if parts:
            parts.close(is_alone=is_alone)


def _do(translator, job, stream, parts, say):
    files = job.open()
    if parts:
        _open_together(parts, say)
    pack, is_first = make_packer(job.output), jax.process_index() == 0
    pace = JobProgress(files, say, LiveLine(sys.stderr) if is_first and sys.stderr else None)

    def work(chunk):
        data, num_pieces = job.work(translator, chunk)
        return pack(data), num_pieces

    hosts_here = jax.process_index(), jax.process_count()
    checksums = run_chunks(job.read_chunks(files), work, stream or parts, pace, *hosts_here)
    if parts:
        patience = max(hosts.WAIT_SECONDS, 10 * pace.longest)
        if is_first and not wait_for_parts(parts, checksums, patience, say):
            return hosts.exit_process(RESUMABLE)
        _join_together(parts, checksums, pack(b""))
    pace.finish(job.output)
    return DONE


def run_chunks(chunks, work, place, pace, host=0, num_hosts=1):
    """Works on what is not done yet, each host on every n-th chunk; returns all checksums.

    work: chunk -> (bytes, number of pieces); place: where the bytes go.
    """
    checksums, num_missing = [], 0
    for chunk in chunks:
        start, num_pieces = time.monotonic(), None
        checksums.append(chunk.checksum)
        is_finished = place.has(chunk)
        if not is_finished and num_missing % num_hosts == host:
            data, num_pieces = work(chunk)
            place.write(chunk, data)
        num_missing += not is_finished
        pace.add(chunk, is_finished, num_pieces, time.monotonic() - start)
    return checksums


def _open_together(parts, say):
    """The first host opens the folder; all of them take the same chunks as done."""
    is_first = jax.process_index() == 0
    if is_first:
        parts.open()
    there = parts.finished() if is_first else {}
    there = json.loads(hosts.gather_from_hosts(json.dumps(there).encode())[0])
    hosts.check_same(f"what they are to do, or in what they see in {parts.folder}", parts.identity)
    parts.resume({int(number): checksum for number, checksum in there.items()})
    if there:
        say(f"resuming: {len(there):,} chunks are done already, in {parts.folder}")


def wait_for_parts(parts, checksums, patience, say):
    """Whether the chunks of the other hosts are there; False after `patience` s without one."""
    missing, since, said = parts.missing(checksums), time.monotonic(), time.monotonic()
    while missing:
        time.sleep(POLL_EVERY)
        there, now = parts.missing(checksums), time.monotonic()
        if len(there) < len(missing):
            missing, since = there, now
        if missing and now - since > patience:
            say(
                f"error: {len(missing)} chunks of other hosts are missing in {parts.folder}, and "
                f"none came within {patience:.0f} s; start the same command on every host again."
            )
            return False
        if missing and now - said > hosts.SAY_EVERY:
            said = now
            say(f"waiting for {len(missing)} chunks of other hosts: {now - since:.0f} s")
    return True


def _join_together(parts, checksums, empty):
    """The first host makes the file; nobody leaves before it is there."""
    is_first = jax.process_index() == 0
    if is_first:
        parts.join(checksums, empty)
    while not parts.is_joined:
        time.sleep(POLL_EVERY)
    hosts.wait_for_all("the joined file")
    if is_first:
        parts.remove()
