"""The evaluation of a translator: scores and segments of a test set, as text, JSON and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from etils import epath

from transformer.console import phase
from transformer.evaluation import html_report, metrics
from transformer.evaluation.further_metrics import further_score
from transformer.evaluation.output_checks import word_unit
from transformer.evaluation.plots import AttentionMap
from transformer.evaluation.run_facts import read_facts
from transformer.evaluation.scores import Score, corpus_perplexity
from transformer.evaluation.segments import (
    LengthScore,
    Segment,
    describe_outputs,
    score_by_length,
    text_sides,
    worst_and_best,
)
from transformer.evaluation.task_scores import TaskScores, json_lines, plain_table, write_results
from transformer.workdir import WorkDir

if TYPE_CHECKING:
    from transformer.evaluation.checkpoint_series import CheckpointRow

NUM_BOOTSTRAP = 1000  # resamples behind a 95% interval


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """What the scores depend on besides the texts.

    tokenize: BLEU's tokenisation. longest_source: tokens beyond which sources were cut.
    search: the options of the search. selection_metric: the key of the primary score.
    """

    source_language: str
    target_language: str
    tokenize: str
    vocab_size: int
    longest_source: int
    search: dict[str, Any]
    selection_metric: str = "bleu"

    @property
    def length_unit(self) -> str:
        """What source lengths are counted in: "characters" if a source is a single word."""
        is_single_word = self.selection_metric == "line_error_rate"
        return "characters" if is_single_word else word_unit(self.source_language)

    @property
    def languages(self) -> tuple[str, str]:
        """The languages of the sources and of the translations."""
        return self.source_language, self.target_language

    @property
    def direction(self) -> str:
        """The languages as scores show them: "en-de"."""
        return "-".join(self.languages)


@dataclass(kw_only=True, repr=False)
class Evaluation(TaskScores):
    """What a translator reached on a test set.

    step, num_averaged: of the checkpoint, as those of `checkpoints.Loaded`; None: in memory.
    secondary: scores by other metrics and tokenisations. by_length: the primary metric by ranges
    of source lengths. outputs: the faults and lengths that `segments.describe_outputs` counts.
    maps: the attention of some translations, for report.html.
    """

    step: int | None = None
    num_averaged: int = 1
    settings: EvaluationSettings
    segments: list[Segment]
    secondary: list[Score]
    by_length: list[LengthScore]
    outputs: dict[str, Any]
    maps: list[AttentionMap] = field(default_factory=list, compare=False, repr=False)

    def detail_lines(self) -> list[str]:
        """Returns the secondary scores, the scores by length and the counts of faults."""
        scores = [("", s.name, s.figures, s.signature) for s in self.secondary]
        by_length = [
            ("", row.lengths, f"{row.score.num_sentences:,}", "sentences", row.score.figures)
            for row in self.by_length
        ]
        ours, theirs = self.outputs["translations"], self.outputs["references"]
        counts = [f"{ours[name]:,} {name} ({theirs[name]:,})" for name in ours]
        ratio, num_cut = self.outputs["length_ratio"], self.outputs["cut_sources"]
        return [
            "by other metrics:",
            *plain_table(scores, align=("left", "left", "right", "left")),
            f"{self.primary.name} by {self.settings.length_unit} of the source:",
            *plain_table(by_length, align=("left", "left", "right", "left", "right")),
            f"translations (references): {', '.join(counts)}",
            f"length {ratio:.3f} of the references'; {num_cut:,} sources cut",
        ]

    def sample_lines(self, count: int = 3) -> list[str]:
        """Returns some translations beside their references, spread over the test set."""
        step = max(1, len(self.segments) // count)
        return [
            f"  source       {s.source}\n  reference    {s.reference}\n"
            f"  translation  {s.translation}\n"
            for s in self.segments[::step][:count]
        ]

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds of this test set."""
        worst, best = worst_and_best(self.segments)
        return {
            **super().to_json(),
            "step": self.step,
            **asdict(self.settings),
            "num_sentences": len(self.segments),
            "second": [score.to_json() for score in self.secondary],
            "length_unit": self.settings.length_unit,
            "by_length": [row.to_json() for row in self.by_length],
            "outputs": self.outputs,
            "worst": [segment.to_json() for segment in worst],
            "best": [segment.to_json() for segment in best],
        }

    def save(
        self,
        workdir: WorkDir,
        name: str,
        *,
        checkpoints: Sequence[CheckpointRow] = (),
    ) -> epath.Path:
        """Writes results/NAME/ of a work directory; returns the path of its report.json.

        checkpoints: all that were scored, if there were several.
        """
        record = self.to_json() | {"checkpoints": [row.to_json() for row in checkpoints]}
        with phase("writing the report"):
            page = html_report.render(
                self,
                title=str(workdir.path),
                curves=workdir.read_metrics(),
                checkpoints=checkpoints,
                facts=read_facts(workdir),
            )
        files = {
            "translations.txt": "".join(f"{s.translation}\n" for s in self.segments),
            "segments.jsonl": json_lines(segment.to_json() for segment in self.segments),
            "report.html": page,
        }
        return write_results(workdir, name, record, files)


def make_evaluation(
    settings: EvaluationSettings,
    segments: list[Segment],
    reference_lengths: Sequence[int],
    *,
    checkpoint: str,
    step: int | None = None,
    num_averaged: int = 1,
    corpus: str,
    num_cut: int = 0,
    further_metrics: Sequence[str] = (),
    num_bootstrap: int = NUM_BOOTSTRAP,
) -> Evaluation:
    """Scores segments and counts their faults.

    reference_lengths: tokens of each reference, EOS included. checkpoint, step, num_averaged,
    corpus: as those of `Evaluation`. num_cut: number of sources that were cut. further_metrics:
    names that `check_metrics` knows. num_bootstrap: as in `metrics`.
    """
    texts, direction = text_sides(segments), settings.direction
    options: dict[str, Any] = {"tokenize": settings.tokenize, "num_bootstrap": num_bootstrap}
    metric = settings.selection_metric
    score = partial(metrics.score_by, metric, direction=direction, **options)
    scores = {metric: score(*texts)}
    if "bleu" not in scores:
        scores["bleu"] = metrics.bleu(*texts, direction, **options)
    scores["chrf"] = metrics.chrf(*texts, direction, num_bootstrap=num_bootstrap)
    scores["perplexity"] = corpus_perplexity(
        [segment.reference_log_prob for segment in segments],
        reference_lengths,
        direction,
        vocab_size=settings.vocab_size,
        num_bootstrap=num_bootstrap,
    )
    sources = [segment.source for segment in segments]
    for name in further_metrics:
        kind = name.partition(":")[0]
        key = name if kind in scores else kind
        scores[key] = further_score(name, sources, *texts, direction, **options)
    outputs = describe_outputs(segments, settings.languages, settings.tokenize)
    return Evaluation(
        checkpoint=checkpoint,
        step=step,
        num_averaged=num_averaged,
        corpus=corpus,
        scores=scores,
        settings=settings,
        segments=segments,
        secondary=metrics.secondary_scores(*texts, direction, **options),
        by_length=score_by_length(segments, settings.length_unit, score),
        outputs=outputs | {"cut_sources": num_cut},
    )
