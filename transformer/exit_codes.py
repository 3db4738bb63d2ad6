"""The exit codes of the commands."""

DONE = 0
FAILED = 1  # the run came to its end, but its last checkpoint could not be written
WRONG_INPUT = 2  # a flag, a setting, a file or a resource that the user can mend
DIVERGED = 3  # updates that were not finite; the same command would diverge again
RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: preempted, and the same command resumes
INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class ResumableError(RuntimeError):
    """Ends a command that the same command resumes; its text is the sentence to print."""
