"""The job of answering each line of a text file, as every task but translation does."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformer.inference.chunks import Chunk
from transformer.inference.file_job import FileJob

LINE_BREAKS = re.compile(r"[\n\r]")


@dataclass(frozen=True, kw_only=True)
class Answerer:
    """What answers lines of text, and what its answers depend on.

    answer: returns one text for each line of a list; none may depend on the other lines.
    identity: {name: value} of everything on which the answers depend, besides the lines and the
      options; a job that was stopped is resumed only if it is the same. `file_job.identity_of`
      gives that of a `Predictor`.
    num_cut: returns how many lines so far were too long to be read whole.
    cut: what happened to those, as what follows "2 texts": "longer than 64 tokens, cut there".
    """

    answer: Callable[[list[str]], Sequence[str]]
    identity: dict[str, Any]
    num_cut: Callable[[], int] = lambda: 0
    cut: str = "cut"


@dataclass(frozen=True)
class AnswerJob(FileJob[Answerer]):
    """One line of output for each line of a text. options: those that the `Answerer` was given."""

    options: dict[str, Any] = field(default_factory=dict)

    def _output(self, model: Answerer, chunk: Chunk) -> tuple[bytes, int]:
        answers = model.answer(chunk.lines)
        if len(answers) != len(chunk.lines):
            raise ValueError(f"the task gave {len(answers)} answers; there must be one a line.")
        rows = (f"{LINE_BREAKS.sub(' ', text)}\n" for text in answers)
        return "".join(rows).encode(errors="replace"), 0

    def _identity(self, model: Answerer) -> dict[str, Any]:
        return {**model.identity, "options": self.options}
