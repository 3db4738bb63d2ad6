"""The job of translating a text file, or of scoring given translations of it.

Its output is lines of text or JSON; nothing in a translation can break a line.
"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from transformer.inference.chunks import Chunk
from transformer.inference.file_job import FileJob, identity_of
from transformer.inference.translation import Translation, pharaoh
from transformer.inference.translator import Translator

SEPARATORS = re.compile(r"[\t\n\r]")  # between the fields and lines of the text formats


@dataclass(frozen=True)
class TranslationJob(FileJob[Translator]):
    """What to write for each line; fields are named as the flags of eval.py.

    nbest: translations per line (0: one), with their numbers and scores.
    scores: whether each translation is followed by its score.
    jsonl: whether a line is a JSON object.
    alignments: whether each translation is followed by its word alignment.
    score: a file of targets to be scored; nothing is translated then.
    prefixes: a file with the beginning of each translation.
    options: search options, as `Translator.translate` takes them.
    """

    nbest: int = 0
    scores: bool = False
    jsonl: bool = False
    alignments: bool = False
    score: str = ""
    prefixes: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def style(self) -> str:
        """The name of its output format, as `format_chunk` takes it."""
        if self.alignments and not self.jsonl:
            return "alignments"
        if self.score:
            return "log_probs_jsonl" if self.jsonl else "log_probs"
        chosen = {"jsonl": self.jsonl, "nbest": self.nbest, "scores": self.scores}
        return next((name for name, is_chosen in chosen.items() if is_chosen), "text")

    @property
    def files(self) -> list[str]:
        """The files that are read: the input, and the targets or prefixes of its lines."""
        return [path for path in (self.input, self.score or self.prefixes) if path]

    def check_options(self, model: Translator) -> None:
        companions = [] if len(self.files) == 2 else None
        self._output(model, Chunk(0, 0, [], companions))

    def _output(self, model: Translator, chunk: Chunk) -> tuple[bytes, int]:
        nbest = self._nbest(model, chunk)
        if self.alignments:
            best = [found[0] for found in nbest]
            for one, pairs in zip(best, model.align(chunk.lines, best), strict=True):
                one.alignment = pairs
        return format_chunk(self.style, chunk, nbest), sum(len(best[0].ids) for best in nbest)

    def _nbest(self, translator: Translator, chunk: Chunk) -> list[list[Translation]]:
        """Returns a list of Translations per line, best first; the given target if `score`."""
        if self.score:
            return [[t] for t in translator.score(chunk.lines, chunk.companions or [])]
        options = self.options | {"prefixes": chunk.companions}
        if self.nbest:
            return translator.translate(chunk.lines, nbest=self.nbest, **options)
        return [[t] for t in translator.translate(chunk.lines, **options)]

    def _identity(self, model: Translator) -> dict[str, Any]:
        values = model.config.values()
        decoding = {
            setting.name: values[setting.name]
            for setting in model.config.settings()
            if setting.name.startswith("decoding.") and setting.changes_result
        }
        return {
            **identity_of(model),
            **decoding,
            "options": self.options,
            "format": f"{self.style} {self.nbest}".removesuffix(" 0"),
            "score": bool(self.score),
            **({"alignments": True} if self.alignments else {}),
            "prefixes": bool(self.prefixes),
        }


def format_chunk(style: str, chunk: Chunk, translations: list[list[Translation]]) -> bytes:
    """Returns the lines of a chunk.

    style: "text", "scores", "alignments", "nbest", "jsonl", or for given targets "log_probs" and
    "log_probs_jsonl". translations: an n-best list per line of the chunk, best first.
    """
    companions = chunk.companions or [""] * len(chunk.lines)
    lines = zip(chunk.lines, companions, translations, strict=True)
    rows = (
        row
        for number, (source, companion, best) in enumerate(lines, chunk.start)
        for row in _rows(style, number, source, companion, best)
    )
    return "".join(f"{row}\n" for row in rows).encode(errors="replace")  # a surrogate becomes "?"


def _rows(
    style: str, number: int, source: str, companion: str, best: list[Translation]
) -> Iterator[str]:
    first, text = best[0], SEPARATORS.sub(" ", best[0].text)
    match style:
        case "text":
            yield text
        case "scores":
            yield f"{text}\t{first.score:.6f}"
        case "alignments":
            yield f"{text}\t{pharaoh(first.alignment or [])}"
        case "nbest":
            for one in best:
                yield f"{number}\t{SEPARATORS.sub(' ', one.text)}\t{one.score:.6f}"
        case "log_probs":
            yield f"{first.log_prob:.6f}\t{first.score:.6f}"
        case "jsonl":
            translations = [{"text": one.text, **_numbers(one)} for one in best]
            yield _json({"source": source, "translations": translations})
        case "log_probs_jsonl":
            pieces = {"pieces": len(first.ids)}
            yield _json({"source": source, "target": companion, **_numbers(first), **pieces})


def _numbers(translation: Translation) -> dict[str, Any]:
    """Returns the scores to six digits, None for infinity and NaN, and the alignment if any."""
    numbers = {"score": translation.score, "log_prob": translation.log_prob}
    rounded = {k: round(float(x), 6) if math.isfinite(x) else None for k, x in numbers.items()}
    aligned = translation.alignment
    return rounded if aligned is None else rounded | {"alignment": pharaoh(aligned)}


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
