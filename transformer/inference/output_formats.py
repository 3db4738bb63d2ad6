"""Translations -> lines of text or of JSON, in which nothing they contain can break a line.

found, everywhere: for each line of a chunk a list of `Translation`s, the best first.
"""

import gzip
import json
import lzma
import math
import re
from functools import partial
from pathlib import Path

BREAKS = re.compile(r"[\t\n\r]")  # what separates the fields and lines of the text formats
PACKERS = {".gz": partial(gzip.compress, compresslevel=6, mtime=0), ".xz": lzma.compress}


def make_packer(output):
    """bytes -> the bytes of a file of that name; packed parts, one after another, are a file."""
    return PACKERS.get(Path(output).suffix, bytes)


def write_chunk(style, chunk, found):
    """The bytes of a chunk in one of STYLES."""
    companions = chunk.companions or [""] * len(chunk.lines)
    lines = zip(chunk.lines, companions, found, strict=True)
    rows = (
        row
        for number, (source, companion, best) in enumerate(lines, chunk.start)
        for row in STYLES[style](number, source, companion, best)
    )
    return "".join(f"{row}\n" for row in rows).encode(errors="replace")  # a surrogate becomes "?"


def _text(number, source, companion, best):
    yield _one_line(best[0].text)


def _scores(number, source, companion, best):
    yield f"{_one_line(best[0].text)}\t{best[0].score:.6f}"


def _nbest(number, source, companion, best):
    for translation in best:
        yield f"{number}\t{_one_line(translation.text)}\t{translation.score:.6f}"


def _log_probs(number, source, companion, best):
    yield f"{best[0].log_prob:.6f}\t{best[0].score:.6f}"


def _jsonl(number, source, companion, best):
    translations = [{"text": t.text, **_numbers(t)} for t in best]
    yield _json({"source": source, "translations": translations})


def _log_probs_jsonl(number, source, companion, best):
    pieces = {"pieces": len(best[0].ids)}
    yield _json({"source": source, "target": companion, **_numbers(best[0]), **pieces})


STYLES = {
    "text": _text,
    "scores": _scores,
    "nbest": _nbest,
    "jsonl": _jsonl,
    "log_probs": _log_probs,
    "log_probs_jsonl": _log_probs_jsonl,
}


def _one_line(text):
    return BREAKS.sub(" ", text)


def _numbers(translation):
    """JSON knows no infinity and no NaN: they become null."""
    numbers = {"score": translation.score, "log_prob": translation.log_prob}
    return {k: round(float(x), 6) if math.isfinite(x) else None for k, x in numbers.items()}


def _json(record):
    return json.dumps(record, ensure_ascii=False, allow_nan=False)
