"""What is found of a test set: scores and counts of its segments, as lines, as JSON, on disk."""

import json
from dataclasses import asdict, dataclass, field
from functools import partial

import transformer
from transformer.evaluate import html_report, metrics
from transformer.evaluate.metrics import Score
from transformer.evaluate.output_checks import word_unit
from transformer.evaluate.segments import (
    Segment,
    describe_outputs,
    score_by_length,
    text_sides,
    worst_and_best,
)
from transformer.storage import write_atomically

NUM_BOOTSTRAP = 1000  # resamples behind a 95% interval


@dataclass(frozen=True)
class EvaluationSettings:
    """What scores depend on besides the texts.

    tokenize: BLEU's; search: the options used; selection_metric: the name of the primary score.
    """

    checkpoint: str
    corpus: str
    source_language: str
    target_language: str
    tokenize: str
    vocab_size: int
    longest_source: int
    search: dict
    selection_metric: str = "bleu"

    @property
    def length_unit(self):
        """What source lengths are counted in: words, but a word alone in its characters."""
        is_of_words = self.selection_metric == "line_error_rate"
        return "characters" if is_of_words else word_unit(self.source_language)

    @property
    def languages(self):
        return self.source_language, self.target_language

    @property
    def direction(self):
        return "-".join(self.languages)


@dataclass
class Evaluation:
    """What was found of one test set.

    scores: by name, the primary one first; maps: attention of some sentences, for report.html.
    """

    settings: EvaluationSettings
    segments: list[Segment]
    scores: dict[str, Score]
    secondary: list[Score]
    by_length: list[dict]
    outputs: dict
    maps: list[dict] = field(default_factory=list)

    @property
    def checkpoint(self):
        return self.settings.checkpoint

    @property
    def primary(self):
        """The score by which runs are compared first."""
        return self.scores[self.settings.selection_metric]

    @property
    def bleu(self):
        return self.scores["bleu"]

    @property
    def chrf(self):
        return self.scores["chrf"]

    @property
    def perplexity(self):
        return self.scores["perplexity"]

    def lines(self):
        """What a person reads first: a line a score, each with its signature."""
        return list(map(str, self.scores.values()))

    def detail_lines(self):
        """The other scores, what length does, and what the translations look like."""
        lines = ["scored otherwise:"]
        lines += [f"  {s.name:<45} {s.figures:>13}  {s.signature}" for s in self.secondary]
        lines += [f"{self.primary.name} by {self.settings.length_unit} of the source:"]
        for row in self.by_length:
            score, lengths = row["score"], html_report.length_range(row)
            lines.append(f"  {lengths:<11} {score.num_sentences:>7,} sentences {score.figures:>15}")
        ours, theirs = self.outputs["translations"], self.outputs["references"]
        counts = [f"{ours[name]:,} {name} ({theirs[name]:,})" for name in ours]
        lines.append(f"translations (references): {', '.join(counts)}")
        ratio, cut = self.outputs["length_ratio"], self.outputs["cut_sources"]
        return [*lines, f"length {ratio:.3f} of the references'; {cut:,} sources cut"]

    def sample_lines(self, count=3):
        """Some translations beside their references, spread over the test set."""
        step = max(1, len(self.segments) // count)
        return [
            f"  source       {s.source}\n  reference    {s.reference}\n"
            f"  translation  {s.translation}\n"
            for s in self.segments[::step][:count]
        ]

    def to_json(self):
        """What report.json holds of this test set."""
        worst, best = worst_and_best(self.segments)
        return {
            "version": transformer.__version__,
            **asdict(self.settings),
            "num_sentences": len(self.segments),
            **{name: score.to_json() for name, score in self.scores.items()},
            "second": [score.to_json() for score in self.secondary],
            "length_unit": self.settings.length_unit,
            "by_length": [row | {"score": row["score"].to_json()} for row in self.by_length],
            "outputs": self.outputs,
            "worst": [segment.to_json() for segment in worst],
            "best": [segment.to_json() for segment in best],
        }

    def save(self, workdir, name, *, checkpoints=(), comparison=None):
        """Writes results/NAME/ of a work directory; returns the path of its report.json.

        checkpoints: rows of `checkpoint_row`, if several were scored; comparison: with another run.
        """
        folder = workdir / "results" / name
        record = self.to_json() | {
            "checkpoints": [
                row | {name: row[name].to_json() for name in self.scores} for row in checkpoints
            ],
            "comparison": comparison and comparison.to_json(),
        }
        lines = [json.dumps(s.to_json(), ensure_ascii=False) for s in self.segments]
        contents = {
            "translations.txt": "".join(f"{s.translation}\n" for s in self.segments),
            "segments.jsonl": "".join(f"{line}\n" for line in lines),
            "report.html": html_report.render(
                self, str(workdir.path), curves=workdir.read_metrics(), checkpoints=checkpoints,
                comparison=comparison,
            ),
            "report.json": json.dumps(record, indent=2, ensure_ascii=False) + "\n",
        }  # fmt: skip
        if workdir.writes:
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in contents.items():
                write_atomically(folder / file, content)
        return folder / "report.json"


def make_evaluation(settings, segments, piece_counts, num_cut=0):
    """Scores and counts segments. piece_counts: of each reference; num_cut: sources cut."""
    texts = *text_sides(segments), settings.direction
    options = dict(tokenize=settings.tokenize, num_bootstrap=NUM_BOOTSTRAP)
    score = partial(
        metrics.score_by, settings.selection_metric, direction=settings.direction, **options
    )
    perplexity = metrics.corpus_perplexity(
        [segment.reference_log_prob for segment in segments], piece_counts, settings.direction,
        vocab_size=settings.vocab_size, num_bootstrap=NUM_BOOTSTRAP,
    )  # fmt: skip
    scores = {settings.selection_metric: score(*text_sides(segments))}
    if "bleu" not in scores:
        scores["bleu"] = metrics.bleu(*texts, **options)
    scores |= {"chrf": metrics.chrf(*texts, num_bootstrap=NUM_BOOTSTRAP), "perplexity": perplexity}
    outputs = describe_outputs(segments, settings.languages, settings.tokenize)
    return Evaluation(
        settings,
        segments,
        scores,
        metrics.secondary_scores(*texts, **options),
        score_by_length(segments, settings.length_unit, score),
        outputs | {"cut_sources": num_cut},
    )
