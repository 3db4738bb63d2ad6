"""Metrics of translations, as papers publish them: BLEU, chrF, TER, COMET, the rate of wrong lines.

Every function here takes `translations` and `references`, lists of lines in the same order, and
some of the arguments below. A line may have several references, as a tuple: sacrebleu's metrics
then count what matches any of them (BLEU) or the best one (chrF, TER).

direction: the languages, "en-de"; kept with the score.
tokenize: sacrebleu's name for how BLEU splits words: "13a" (mteval), "intl", "zh", "char" …;
    "none" for text that is tokenised already.
num_bootstrap: number of resamples of lines behind the 95% interval; 1: no interval.

Scores raise ValueError unless the lists are of the same length and not empty.

COMET (Rei et al. 2020) has a package that needs an older NumPy and protobuf than this one, so its
program is called, from wherever it is installed: pipx install unbabel-comet.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.base import Score as SacrebleuScore

from transformer.data.corpora.languages import has_spaces, scripts_of
from transformer.evaluation.scores import FEWEST_FOR_INTERVAL, Score
from transformer.registry import METRICS, MetricEntry

Reference = str | list[str] | tuple[str, ...]  # the reference of a line, or several

EXTRAS = {"ja-mecab": "ja", "ko-mecab": "ko"}  # tokenisation: what pip installs for it
BEST = {"Jpan": "ja-mecab", "Hans": "zh", "Hant": "zh", "Hang": "ko-mecab", "Kore": "ko-mecab"}
TOKENISATIONS = {"13a": "mteval-13a tokenisation", "intl": "international tokenisation"}
COMET, DEFAULT_MODEL = "comet", "Unbabel/wmt22-comet-da"
COMMAND = "comet-score -s source -t translation -r reference --to_json scores --quiet --model"


def best_tokenisation(language: str) -> str:
    """Returns the tokenisation of sacreBLEU that suits a language, whatever code it is given by.

    >>> best_tokenisation("zh_CN"), best_tokenisation("tha_Thai"), best_tokenisation("de")
    ('zh', 'char', '13a')
    """
    usual = "13a" if has_spaces(language) else "char"
    return next((BEST[script] for script in scripts_of(language) if script in BEST), usual)


def choose_tokenisation(language: str) -> tuple[str, str]:
    """Returns (the tokenisation for a language that can run here, why it is this one)."""
    best = best_tokenisation(language)
    try:
        check_tokenisation(best)
    except ValueError:
        return "char", f"{best} needs pip install 'sacrebleu[{EXTRAS[best]}]'"
    return best, f"for the language {language}"


def tokenisation_note(tokenize: str, language: str) -> str:
    """Returns a warning if BLEU is to count words of a language without spaces, else ""."""
    if has_spaces(language) or tokenize not in TOKENISATIONS:
        return ""
    others = " or ".join(dict.fromkeys((best_tokenisation(language), "char")))
    note = f"{tokenize} does not split {language} into words, so BLEU says little"
    return f"{note}; set --config.data.bleu_tokenize={others}"


def check_tokenisation(tokenize: str) -> None:
    """Raises ValueError if BLEU's tokenisation needs packages that are not installed."""
    try:
        BLEU(tokenize=tokenize, force=True)
    except (AssertionError, ImportError, RuntimeError):
        raise ValueError(
            f"data.bleu_tokenize={tokenize} needs more packages: pip install "
            f"'sacrebleu[{EXTRAS.get(tokenize, tokenize)}]' (data.bleu_tokenize=char needs none)."
        ) from None


def bleu_metric(tokenize: str = "13a", *, lowercase: bool = False) -> BLEU:
    """Returns sacrebleu's BLEU; text that is tokenised already causes no warning."""
    return BLEU(tokenize=tokenize, force=tokenize == "none", lowercase=lowercase)


class MeanOverLines(Metric):
    """The mean over lines of a function of (translation, reference), as sacrebleu's metric.

    With these abstract methods of sacrebleu's it has the same intervals and paired tests as BLEU.
    facts: what the signature says, as {"unit": "line"}. best: of several references.
    """

    def __init__(
        self,
        function: Callable[[str, str], float],
        label: str,
        facts: Mapping[str, str],
        best: Callable[[list[float]], float] = max,
    ) -> None:
        super().__init__()
        self.function, self.label, self.facts, self.best = function, label, facts, best

    def get_signature(self) -> Signature:
        signature = super().get_signature()
        signature.info.update(self.facts)
        return signature

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"references": refs}

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict) -> list[Any]:
        return [self.best([self.function(hypothesis, r) for r in ref_kwargs["references"]]), 1]

    def _aggregate_and_compute(self, stats: list[list[int]]) -> SacrebleuScore:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Sequence[float] | np.ndarray) -> SacrebleuScore:
        return SacrebleuScore(self.label, float(stats[0]) / float(stats[1]))


def line_error_rate(translation: str, reference: str) -> float:
    """Returns 100 for a line that is not wholly right, else 0: the mean is SIGMORPHON's WER."""
    return 100.0 * (translation != reference)


BLEU_ENTRY = MetricEntry(BLEU, "BLEU")
CHRF_ENTRY = MetricEntry(CHRF, "chrF2")
TER_ENTRY = MetricEntry(TER, "TER", higher_is_better=False)
LINE_ERROR_RATE_ENTRY = MetricEntry(line_error_rate, "WER (whole words)", higher_is_better=False)


def check_metrics(names: Sequence[str]) -> None:
    """Raises ValueError for a name that is neither a metric nor "comet" nor "comet:MODEL"."""
    for name in names:
        if name.partition(":")[0] == COMET:
            if not shutil.which("comet-score"):
                raise ValueError("comet needs the program comet-score: pipx install unbabel-comet.")
        elif name not in METRICS:
            known = ", ".join(METRICS)
            raise ValueError(f"A metric is {known}, comet or comet:MODEL, not {name!r}.")


def metric_and_label(name: str, *, tokenize: str = "13a") -> tuple[Metric, str]:
    """Returns sacrebleu's metric, and its name in reports, for "chrf" or a registered metric."""
    entry = CHRF_ENTRY if name == "chrf" else METRICS[name]
    function, label = entry.metric, entry.label
    if isinstance(function, type):
        return bleu_metric(tokenize) if function is BLEU else function(), label
    facts = {"unit": "line", "function": function.__name__}
    if function is line_error_rate:
        facts = {"case": "mixed", "unit": "line", "match": "whole"}
    return MeanOverLines(function, label, facts, max if entry.higher_is_better else min), label


def score_by(
    name: str,
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    *,
    sources: Sequence[str] = (),
    tokenize: str = "13a",
    num_bootstrap: int = 1,
) -> Score:
    """Returns the score by "chrf", a registered metric, "comet" or "comet:MODEL".

    COMET, which needs the sources, is times 100 and the mean over the references of a line. Raises
    ValueError with the last line that comet-score said, if that fails.
    """
    kind, _, model = name.partition(":")
    if kind != COMET:
        metric, label = metric_and_label(name, tokenize=tokenize)
        return score_with(label, metric, translations, references, direction, num_bootstrap)
    several, model = [*map(all_references, references)], model or DEFAULT_MODEL
    lines = zip(sources, translations, several, strict=True)
    values = _comet_scores(model, [(s, t, r) for s, t, each in lines for r in each])
    means = [100 * sum(islice(values, len(each))) / len(each) for each in several]
    metric = MeanOverLines(lambda number, _: means[int(number)], "COMET", {"model": model})
    numbers = [str(number) for number in range(len(means))]
    return score_with("COMET", metric, numbers, numbers, direction, num_bootstrap)


def _comet_scores(model: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[float]:
    """Yields the score of each row (source, translation, reference); model: a name, or a path."""
    model = str(Path(model).absolute()) if Path(model).exists() else model
    with tempfile.TemporaryDirectory() as folder:
        names = ("source", "translation", "reference")
        for name, lines in zip(names, zip(*rows, strict=True), strict=True):
            text = "".join(f"{' '.join(line.split())}\n" for line in lines)
            (Path(folder) / name).write_text(text, encoding="utf-8", errors="replace")
        done = subprocess.run([*COMMAND.split(), model], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            raise ValueError(f"comet-score with the model {model} failed: {said[-1]}")
        (scored,) = json.loads((Path(folder) / "scores").read_text(encoding="utf-8")).values()
    yield from (row["COMET"] for row in scored)


def secondary_metrics(tokenize: str) -> dict[str, Metric]:
    """Returns the metrics that papers print besides BLEU and chrF2, each under its own name.

    Lower-cased international BLEU is what t2t-bleu counts; it stands for the tokenised,
    compound-split BLEU of the Transformer's paper. What BLEU by `tokenize` is already is left out.
    """
    others = TOKENISATIONS if tokenize in (*TOKENISATIONS, "none") else {"char": "by characters"}
    metrics: dict[str, Metric] = {"BLEU, lower-cased": bleu_metric(tokenize, lowercase=True)}
    for other, name in others.items():
        if other != tokenize:
            metrics[f"BLEU, {name}"] = bleu_metric(other)
    if "intl" in others and tokenize != "intl":
        metrics[f"BLEU, lower-cased, {others['intl']}"] = bleu_metric("intl", lowercase=True)
    return metrics | {"chrF2++": CHRF(word_order=2)}


def score_with(
    name: str,
    metric: Metric,
    translations: Sequence[str],
    references: Sequence[Reference],
    direction: str,
    num_bootstrap: int = 1,
) -> Score:
    """Returns the score by one of sacrebleu's metrics, under this name.

    It has no interval of fewer than `FEWEST_FOR_INTERVAL` sentences, or if num_bootstrap is 1.
    """
    if len(translations) != len(references) or not translations:  # sacrebleu would not notice
        raise ValueError(
            f"Scoring needs as many translations as references, and at least one; there are "
            f"{len(translations)} and {len(references)}."
        )
    num_bootstrap = num_bootstrap if len(references) >= FEWEST_FOR_INTERVAL else 1
    streams = reference_streams(references)
    try:
        result = metric.corpus_score(translations, streams, n_bootstrap=num_bootstrap)
    except TypeError:  # sacrebleu 2.6 cannot average a chrF of 0 with others: no interval then
        num_bootstrap = 1
        result = metric.corpus_score(translations, streams, n_bootstrap=1)
    return Score(
        name=name,
        value=result.score,
        signature=metric.get_signature().format(short=False),
        direction=direction,
        num_sentences=len(references),
        # Private, because sacrebleu's public `format` rounds it and omits it at a mean of 0.
        interval=float(result._ci) if num_bootstrap > 1 else None,
    )


def all_references(reference: Reference) -> tuple[str, ...]:
    """Returns all references of a line."""
    return tuple(reference) if isinstance(reference, list | tuple) else (reference,)


def reference_streams(references: Sequence[Reference]) -> list[list[Any]]:
    """Returns the first reference of each line, the second …, None where a line has fewer.

    >>> reference_streams(["a", ("b", "c")])
    [['a', 'b'], [None, 'c']]
    """
    return [list(stream) for stream in zip_longest(*map(all_references, references))]
