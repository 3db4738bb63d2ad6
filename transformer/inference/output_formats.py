"""Formats translations as lines of text or JSON; nothing in a translation can break a line."""

import gzip
import json
import lzma
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from transformer.inference.alignment import pharaoh
from transformer.inference.chunks import Chunk
from transformer.inference.translation import Translation

SEPARATORS = re.compile(r"[\t\n\r]")  # between the fields and lines of the text formats
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
}


def make_compressor(output: str) -> Callable[[bytes], bytes]:
    """Returns a function that compresses bytes as the suffix of the file name `output` says.

    The results for several parts, one after another, are a valid file.
    """
    return COMPRESSORS.get(Path(output).suffix, bytes)


def format_chunk(style: str, chunk: Chunk, translations: list[list[Translation]]) -> bytes:
    """Returns the lines of a chunk in one of `STYLES`.

    translations: an n-best list per line of the chunk, best first.
    """
    companions = chunk.companions or [""] * len(chunk.lines)
    lines = zip(chunk.lines, companions, translations, strict=True)
    rows = (
        row
        for number, (source, companion, best) in enumerate(lines, chunk.start)
        for row in STYLES[style](number, source, companion, best)
    )
    return "".join(f"{row}\n" for row in rows).encode(errors="replace")  # a surrogate becomes "?"


# A style: (line number, source, companion, n-best list) -> lines of output.
Style = Callable[[int, str, str, list[Translation]], Iterator[str]]


def _text(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    yield _one_line(best[0].text)


def _scores(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    yield f"{_one_line(best[0].text)}\t{best[0].score:.6f}"


def _alignments(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    yield f"{_one_line(best[0].text)}\t{pharaoh(best[0].alignment or [])}"


def _nbest(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    for translation in best:
        yield f"{number}\t{_one_line(translation.text)}\t{translation.score:.6f}"


def _log_probs(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    yield f"{best[0].log_prob:.6f}\t{best[0].score:.6f}"


def _jsonl(number: int, source: str, companion: str, best: list[Translation]) -> Iterator[str]:
    translations = [{"text": t.text, **_numbers(t)} for t in best]
    yield _json({"source": source, "translations": translations})


def _log_probs_jsonl(
    number: int, source: str, companion: str, best: list[Translation]
) -> Iterator[str]:
    pieces = {"pieces": len(best[0].ids)}
    yield _json({"source": source, "target": companion, **_numbers(best[0]), **pieces})


STYLES: dict[str, Style] = {
    "text": _text,
    "scores": _scores,
    "alignments": _alignments,
    "nbest": _nbest,
    "jsonl": _jsonl,
    "log_probs": _log_probs,
    "log_probs_jsonl": _log_probs_jsonl,
}


def _one_line(text: str) -> str:
    return SEPARATORS.sub(" ", text)


def _numbers(translation: Translation) -> dict[str, Any]:
    """Returns the scores to six digits, None for infinity and NaN, and the alignment if any."""
    numbers = {"score": translation.score, "log_prob": translation.log_prob}
    found = {k: round(float(x), 6) if math.isfinite(x) else None for k, x in numbers.items()}
    aligned = translation.alignment
    return found if aligned is None else found | {"alignment": pharaoh(aligned)}


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
