"""Runs a job chunk by chunk: each chunk once, on one of the hosts, also after an interruption.

Only the current chunk is in memory.
"""

import time
from collections.abc import Callable

import jax

from transformer.console import live_line, quantity
from transformer.exit_codes import DONE
from transformer.inference.file_job import FileJob, ModelT, make_compressor
from transformer.inference.job_progress import JobProgress
from transformer.inference.resumable_output import ResumableFile, Stream, open_stream
from transformer.parallel import hosts
from transformer.parallel.stopping import Interruption, exit_code_of

Say = Callable[[str], None]  # prints a line for a person


def run_job(model: ModelT, job: FileJob[ModelT], *, say: Say, command: str) -> int:
    """Runs a job to its end or to an `Interruption`; returns an exit code.

    model: what computes the output. command: the command that resumes the job, to be shown when a
    signal stops it. Other code than `DONE` means that other hosts may be left waiting: the caller
    should end the process. Raises ValueError for options that the model refuses and files that
    cannot be read or written, and `ResumableError` if another host does not do its chunks.
    """
    job.check_options(model)
    stream = open_stream(job.output)
    if jax.process_count() > 1 and (stream or "-" in job.files):
        raise ValueError("Several hosts need files that all of them see as --input and --output.")
    output = stream or ResumableFile(job.output, job.identity(model))
    try:
        _run(model, job, output, say)
    except Interruption as interruption:
        say("stopped" + ("" if stream else f"; finished chunks are kept; resume with: {command}"))
        return exit_code_of(interruption.number)
    finally:
        output.close()
    return DONE


def _run(model: ModelT, job: FileJob[ModelT], output: Stream | ResumableFile, say: Say) -> None:
    """Works on every chunk that `output` lacks and whose number is this host's."""
    files, compress = job.open(), make_compressor(job.output)
    host, num_hosts = jax.process_index(), jax.process_count()
    if num_finished := output.open():
        say(f"resuming: {quantity(num_finished, 'chunk')} done already")
    progress = JobProgress(files, say, None if host else live_line())
    checksums = []
    for chunk in job.read_chunks(files):
        start, num_tokens = time.monotonic(), None
        was_finished = output.has(chunk)
        if not was_finished and chunk.number % num_hosts == host:
            data, num_tokens = job.run_chunk(model, chunk)
            output.write(chunk, compress(data))
        checksums.append(chunk.checksum)
        progress.add(chunk, was_finished, num_tokens, time.monotonic() - start)
    patience = max(hosts.WAIT_SECONDS, 10 * progress.longest)
    output.finish(checksums, compress(b""), patience)
    progress.finish(job.output)
