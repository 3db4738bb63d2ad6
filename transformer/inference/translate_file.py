"""Translates a text file, or scores given translations of it.

The output is lines of text or JSON; nothing in a translation can break a line.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from transformer.config import Config
from transformer.inference import CHUNK_LINES
from transformer.inference.file_job import Chunk, FileJob, identity_of
from transformer.inference.translation import Translation, pharaoh
from transformer.inference.translator import Translator

SEPARATORS = re.compile(r"[\t\n\r]")  # between the fields and lines of the text formats


def translate_file(
    translator: Translator,
    input: str,
    output: str = "",
    *,
    nbest: int = 0,
    scores: bool = False,
    jsonl: bool = False,
    alignments: bool = False,
    score: str = "",
    prefixes: str = "",
    chunk_lines: int = CHUNK_LINES,
    **options: Any,
) -> None:
    """Translates each line of a file, of any size and in order; resumes a job that was stopped.

    Args:
      input, output, chunk_lines: as of `FileJob`.
      nbest: translations per line (0: one), with their numbers and scores.
      scores: whether each translation is followed by its score.
      jsonl: whether a line is a JSON object.
      alignments: whether each translation is followed by its word alignment.
      score: a file of targets to be scored; nothing is translated then.
      prefixes: a file with the beginning of each translation.
      options: of the search, as `Translator.translate` takes them.

    Raises ValueError for options that the translator refuses, and as `FileJob.run`.
    """
    companion = score or prefixes
    style = _style(nbest, scores, jsonl, alignments, is_given=bool(score))

    def answer(chunk: Chunk) -> Iterator[str]:
        best = _translations(translator, chunk, nbest, options, is_given=bool(score))
        if alignments:
            firsts = [several[0] for several in best]
            for first, pairs in zip(firsts, translator.align(chunk.lines, firsts), strict=True):
                first.alignment = pairs
        return format_chunk(style, chunk, best)

    answer(Chunk(0, 0, [], [] if companion else None))  # refuses impossible options
    form = {"format": f"{style} {nbest}", "alignments": alignments, "options": options}
    companions = {"score": bool(score), "prefixes": bool(prefixes)}
    identity = identity_of(translator) | _decoding(translator.config) | form | companions
    files = [input, companion] if companion else [input]
    FileJob(files, output, answer, identity, chunk_lines).run()


def _translations(
    translator: Translator, chunk: Chunk, nbest: int, options: dict[str, Any], *, is_given: bool
) -> list[list[Translation]]:
    """Returns a list of translations per line, best first; the given target if `is_given`."""
    if is_given:
        return [[given] for given in translator.score(chunk.lines, chunk.companions or [])]
    options = options | {"prefixes": chunk.companions}
    if nbest:
        return translator.translate(chunk.lines, nbest=nbest, **options)
    return [[best] for best in translator.translate(chunk.lines, **options)]


def _decoding(config: Config) -> dict[str, Any]:
    """Returns {name: value} of the settings of the search that change its results."""
    values, settings = config.values(), config.settings()
    names = [s.name for s in settings if s.name.startswith("decoding.") and s.changes_result]
    return {name: values[name] for name in names}


def _style(nbest: int, scores: bool, jsonl: bool, alignments: bool, *, is_given: bool) -> str:
    """Returns the name of an output format, as `format_chunk` takes it."""
    if alignments and not jsonl:
        return "alignments"
    if is_given:
        return "log_probs_jsonl" if jsonl else "log_probs"
    chosen = {"jsonl": jsonl, "nbest": nbest, "scores": scores}
    return next((name for name, is_chosen in chosen.items() if is_chosen), "text")


def format_chunk(
    style: str, chunk: Chunk, translations: Sequence[Sequence[Translation]]
) -> Iterator[str]:
    """Yields the lines of output for a chunk, without their ends.

    style: "text", "scores", "alignments", "nbest", "jsonl", or for given targets "log_probs" and
    "log_probs_jsonl". translations: an n-best list per line of the chunk, best first.
    """
    companions = chunk.companions or [""] * len(chunk.lines)
    lines = zip(chunk.lines, companions, translations, strict=True)
    for number, (source, companion, best) in enumerate(lines, chunk.start):
        yield from _rows(style, number, source, companion, best)


def _rows(
    style: str, number: int, source: str, companion: str, best: Sequence[Translation]
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
