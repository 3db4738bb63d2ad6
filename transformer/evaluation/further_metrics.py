"""Metrics that are asked for by name: those of the registry, and COMET (Rei et al. 2020).

COMET's package needs an older NumPy and protobuf than this one, so its program is called, from
wherever it is installed: pipx install unbabel-comet.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from transformer.evaluation.metrics import (
    MeanOverLines,
    Reference,
    all_references,
    score_by,
    score_with,
)
from transformer.evaluation.scores import Score
from transformer.registry import METRICS

COMET, DEFAULT_MODEL = "comet", "Unbabel/wmt22-comet-da"
COMMAND = "comet-score -s source -t translation -r reference --to_json scores --quiet --model"


def check_metrics(names: Sequence[str]) -> None:
    """Raises ValueError for a name that is neither a metric nor "comet" nor "comet:MODEL"."""
    for name in names:
        is_comet, known = name.partition(":")[0] == COMET, ", ".join(METRICS)
        if not is_comet and name not in METRICS:
            raise ValueError(f"A metric is {known}, comet or comet:MODEL, not {name!r}.")
        if is_comet and not shutil.which("comet-score"):
            raise ValueError("comet needs the program comet-score: pipx install unbabel-comet.")


def further_score(
    name: str,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    *,
    num_bootstrap: int = 1,
    **options: Any,
) -> Score:
    """Returns the score by one metric; options: those of `score_by`.

    COMET, times 100, is the mean over the references of a line. Raises ValueError with the last
    line that comet-score said, if that fails.
    """
    kind, _, model = name.partition(":")
    texts = translations, references, direction
    if kind != COMET:
        return score_by(name, *texts, num_bootstrap=num_bootstrap, **options)
    several, model = [*map(all_references, references)], model or DEFAULT_MODEL
    lines = zip(sources, translations, several, strict=True)
    found = _comet_scores(model, [(s, t, r) for s, t, each in lines for r in each])
    values = [100 * sum(islice(found, len(each))) / len(each) for each in several]
    metric = MeanOverLines(lambda number, _: values[int(number)], "COMET", {"model": model})
    numbers = [str(number) for number in range(len(values))]
    return score_with("COMET", metric, numbers, numbers, direction, num_bootstrap)


def _comet_scores(model: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[float]:
    """Yields the score of each (source, translation, reference) by a model of COMET.

    model: a name at Hugging Face, or the path of a checkpoint.
    """
    model = str(Path(model).absolute()) if Path(model).exists() else model
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in zip(
            ("source", "translation", "reference"), zip(*rows, strict=True), strict=True
        ):
            text = "".join(f"{' '.join(line.split())}\n" for line in lines)
            (Path(folder) / name).write_text(text, encoding="utf-8", errors="replace")
        done = subprocess.run([*COMMAND.split(), model], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            raise ValueError(f"comet-score with the model {model} failed: {said[-1]}")
        (scored,) = json.loads((Path(folder) / "scores").read_text(encoding="utf-8")).values()
    yield from (row["COMET"] for row in scored)
