"""Evaluates a translator: translates a test set, scores its references, draws attention."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from etils import epath

from transformer.config import Config
from transformer.console import counted, phase
from transformer.evaluation import html_report
from transformer.evaluation.attention_maps import translation_map
from transformer.evaluation.metrics import (
    Reference,
    all_references,
    check_metrics,
    check_tokenisation,
    score_by,
    score_with,
    secondary_metrics,
)
from transformer.evaluation.plots import AttentionMap
from transformer.evaluation.results import json_lines, write_results
from transformer.evaluation.scores import (
    NUM_BOOTSTRAP,
    Score,
    TaskScores,
    corpus_perplexity,
    plain_table,
    spread,
)
from transformer.evaluation.segments import (
    LENGTHS,
    Segment,
    describe_outputs,
    make_segments,
    score_by_length,
    text_sides,
    word_unit,
    worst_and_best,
)
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.parallel.hosts import split_over_hosts
from transformer.workdir import WorkDir

MAP_WORDS = 8  # length of the sentences whose attention is drawn: short enough to be read
SEARCH = ("beam_size", "alpha", "length_penalty", "max_extra_length")  # kept with the scores


@dataclass(kw_only=True, repr=False)
class Evaluation(TaskScores):
    """What a translator reached on a test set.

    config: of its run. search: the options of the search. longest_source: tokens beyond which
    sources were cut. secondary: scores by other metrics and tokenisations. by_length: the primary
    metric by ranges of source lengths, as `segments.score_by_length` returns it. outputs: the
    faults and lengths that `segments.describe_outputs` counts. maps: the attention of some
    translations, for report.html.
    """

    config: Config
    search: dict[str, Any]
    vocab_size: int
    longest_source: int
    segments: list[Segment]
    secondary: list[Score]
    by_length: dict[str, Score]
    outputs: dict[str, Any]
    maps: list[AttentionMap] = field(default_factory=list, compare=False)

    @property
    def length_unit(self) -> str:
        """What source lengths are counted in: "characters" if a source is a single word."""
        is_single_word = self.config.data.selection_metric == "line_error_rate"
        return "characters" if is_single_word else word_unit(self.config.data.source_language)

    def to_json(self) -> dict[str, Any]:
        """Returns what report.json holds of this test set."""
        worst, best = worst_and_best(self.segments)
        data = self.config.data
        return {
            **super().to_json(),
            "step": self.step,
            "source_language": data.source_language,
            "target_language": data.target_language,
            "tokenize": data.bleu_tokenize,
            "vocab_size": self.vocab_size,
            "longest_source": self.longest_source,
            "search": self.search,
            "selection_metric": data.selection_metric,
            "num_sentences": len(self.segments),
            "second": [score.to_json() for score in self.secondary],
            "length_unit": self.length_unit,
            "by_length": [
                {"from": LENGTHS[name][0], "to": LENGTHS[name][1], "score": score.to_json()}
                for name, score in self.by_length.items()
            ],
            "outputs": self.outputs,
            "worst": [segment.to_json() for segment in worst],
            "best": [segment.to_json() for segment in best],
        }

    def save(
        self, workdir: WorkDir, name: str, checkpoints: Sequence[TaskScores] = ()
    ) -> epath.Path:
        """Writes results/NAME/ of a work directory; returns the path of its report.json.

        checkpoints: the scores of all checkpoints that were evaluated, if there were several.
        """
        record = self.to_json()
        record["checkpoints"] = [
            {"checkpoint": row.checkpoint, "step": row.step, **row.scores_to_json()}
            for row in checkpoints
        ]
        with phase("writing the report"):
            page = html_report.render(self, workdir, checkpoints)
        files = {
            "translations.txt": "".join(f"{s.translation}\n" for s in self.segments),
            "segments.jsonl": json_lines(segment.to_json() for segment in self.segments),
            "report.html": page,
        }
        return write_results(workdir, name, record, files)


def evaluate_translator(
    translator: Translator,
    pairs: Sequence[tuple[str, Reference]],
    corpus: str,
    *,
    num_maps: int = 3,
    metrics: Sequence[str] = (),
    **options: Any,
) -> Evaluation:
    """Returns the evaluation of a translator on pairs (source, reference or tuple of several).

    corpus: the name of the test set. num_maps: number of sentences whose attention is kept.
    metrics: further ones, as `check_metrics` knows them. options: of the search, as
    `Translator.translate` takes them. The perplexity is that of the first references. Several hosts
    share the work.
    """
    config = translator.config
    check_tokenisation(config.data.bleu_tokenize)  # before anything is compiled
    check_metrics(metrics)
    sources = [source for source, _ in pairs]
    references = [all_references(reference) for _, reference in pairs]

    def translate(part: Sequence[str]) -> list[dict[str, Any]]:
        return [vars(t) for t in translator.translate(list(part), **options)]

    def score_references(part: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        scored = translator.score(*([pair[side] for pair in part] for side in (0, 1)))
        return [(reference.log_prob, len(reference.ids)) for reference in scored]

    translations = [Translation(**fields) for fields in split_over_hosts(translate, sources)]
    first = [(source, texts[0]) for source, texts in zip(sources, references, strict=True)]
    scored = split_over_hosts(score_references, first)
    segments = make_segments(
        [translator.source_tokenizer.join_pieces(text) for text in sources],
        [tuple(map(translator.tokenizer.join_pieces, texts)) for texts in references],
        translations,
        [log_prob for log_prob, _ in scored],
        config.data.languages,
    )
    with phase("computing the scores and their intervals"):
        result = make_evaluation(
            config,
            segments,
            [length for _, length in scored],
            num_cut=sum(translation.is_cut for translation in translations),
            further_metrics=metrics,
            checkpoint=translator.run.checkpoint,
            step=translator.run.step,
            num_averaged=translator.run.num_averaged,
            corpus=corpus,
            search={name: getattr(config.decoding, name) for name in SEARCH} | options,
            vocab_size=translator.tokenizer.vocab_size,
            longest_source=translator.largest_bucket(),
        )
    shown = _by_readability(sources, translations)[:num_maps]
    result.maps = [
        translation_map(translator, sources[index], translations[index])
        for index in counted(shown, "computing attention maps", len(shown))
    ]
    return result


def make_evaluation(
    config: Config,
    segments: list[Segment],
    reference_lengths: Sequence[int],
    *,
    num_cut: int = 0,
    further_metrics: Sequence[str] = (),
    num_bootstrap: int = NUM_BOOTSTRAP,
    **fields: Any,
) -> Evaluation:
    """Scores segments and counts their faults.

    reference_lengths: tokens of each reference, EOS included. num_cut: number of sources that were
    cut. further_metrics: names that `check_metrics` knows. num_bootstrap: as in `metrics`. fields:
    the others of `Evaluation`.
    """
    data, texts = config.data, text_sides(segments)
    direction, first = "-".join(data.languages), data.selection_metric
    options = {"tokenize": data.bleu_tokenize, "num_bootstrap": num_bootstrap}
    score = partial(score_by, direction=direction, **options)
    scores = {name: score(name, *texts) for name in dict.fromkeys((first, "bleu", "chrf"))}
    scores["perplexity"] = corpus_perplexity(
        [segment.reference_log_prob for segment in segments],
        reference_lengths,
        direction,
        vocab_size=fields["vocab_size"],
        num_bootstrap=num_bootstrap,
    )
    sources = [segment.source for segment in segments]
    for name in further_metrics:
        kind = name.partition(":")[0]
        scores[name if kind in scores else kind] = score(name, *texts, sources=sources)
    outputs = describe_outputs(segments, data.languages, data.bleu_tokenize)
    result = Evaluation(
        config=config,
        scores=scores,
        segments=segments,
        secondary=[
            score_with(name, metric, *texts, direction, num_bootstrap)
            for name, metric in secondary_metrics(data.bleu_tokenize).items()
        ],
        by_length={},
        outputs=outputs | {"cut_sources": num_cut},
        **fields,
    )
    result.by_length = score_by_length(segments, result.length_unit, partial(score, first))
    result.details = _details(result)
    result.samples = [
        f"  source       {s.source}\n  reference    {s.reference}\n  translation  {s.translation}\n"
        for s in spread(segments)
    ]
    return result


def _details(result: Evaluation) -> list[str]:
    """Returns the secondary scores, the scores by length and the counts of faults."""
    by_length = [
        ("", lengths, f"{score.num_sentences:,}", "sentences", score.figures)
        for lengths, score in result.by_length.items()
    ]
    scores = [("", score.name, score.figures, score.signature) for score in result.secondary]
    outputs = result.outputs
    faults = outputs["translations"].items()
    counts = [f"{count:,} {fault} ({outputs['references'][fault]:,})" for fault, count in faults]
    return [
        "by other metrics:",
        *plain_table(scores, "llrl"),
        f"{result.primary.name} by {result.length_unit} of the source:",
        *plain_table(by_length, "llrlr"),
        f"translations (references): {', '.join(counts)}",
        f"length {outputs['length_ratio']:.3f} of the references'; "
        f"{outputs['cut_sources']:,} sources cut",
    ]


def _by_readability(sources: Sequence[str], translations: Sequence[Translation]) -> list[int]:
    """Returns the indices of whole translations, sources of about `MAP_WORDS` words first."""
    indices = [index for index, t in enumerate(translations) if t.text and not t.is_cut]
    return sorted(indices, key=lambda index: (abs(len(sources[index].split()) - MAP_WORDS), index))
