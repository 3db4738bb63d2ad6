"""Finds the fastest batch size for a search of another system."""

import time
from collections.abc import Callable, Sequence
from typing import Any


class Tuned:
    """Calls run(candidate, …) with the fastest candidate.

    The first call with a beam size and α times every candidate. `note` has the seconds of each for
    the last search, the fastest first.
    """

    def __init__(self, run: Callable, candidates: Sequence[Any]) -> None:
        self._run, self._candidates = run, candidates
        self._tried: dict[tuple[int, float], list[tuple[Any, float]]] = {}
        self.note = ""

    def __call__(self, beam_size: int, alpha: float, **options: Any) -> Any:
        """Returns what `run` returns with the fastest candidate."""
        search = beam_size, alpha
        if search not in self._tried and len(self._candidates) > 1:
            self._run(self._candidates[0], *search, **options)
            seconds = {c: self._seconds(c, *search, **options) for c in self._candidates}
            self._tried[search] = sorted(seconds.items(), key=lambda tried: tried[1])
        tried = self._tried.get(search, [(self._candidates[0], 0.0)])
        self.note = ", ".join(f"{c}: {s:.3f} s" for c, s in tried if s)
        return self._run(tried[0][0], *search, **options)

    def _seconds(self, *args: Any, **options: Any) -> float:
        start = time.perf_counter()
        self._run(*args, **options)
        return time.perf_counter() - start
