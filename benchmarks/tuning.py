"""What the sizes of batches are to the others: each search takes the fastest that was tried."""

import time


class Tuned:
    """Calls run(candidate, …); the first call with a beam size tries every candidate.

    note: what was tried for the last search, the chosen one first.
    """

    def __init__(self, run, candidates):
        self._run, self._candidates, self._tried = run, candidates, {}
        self.note = ""

    def __call__(self, beam_size, alpha, **options):
        """What `run` returns with the fastest candidate."""
        search = beam_size, alpha
        if search not in self._tried and len(self._candidates) > 1:
            self._run(self._candidates[0], *search, **options)
            seconds = {c: self._seconds(c, *search, **options) for c in self._candidates}
            self._tried[search] = sorted(seconds.items(), key=lambda tried: tried[1])
        tried = self._tried.get(search, [(self._candidates[0], 0.0)])
        self.note = ", ".join(f"{c}: {s:.3f} s" for c, s in tried if s)
        return self._run(tried[0][0], *search, **options)

    def _seconds(self, *args, **options):
        start = time.perf_counter()
        self._run(*args, **options)
        return time.perf_counter() - start
