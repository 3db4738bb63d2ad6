"""The scores of translations: of a test set as a whole, and of its sentences one by one.

Besides the metrics these are the faults that show without a reference (empty, copied or repeating
text), the worst and the best sentences, and scores by length.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from etils import epath
from sacrebleu.metrics import CHRF

from transformer.config import Config
from transformer.console import counted, phase
from transformer.data.corpora.languages import has_spaces
from transformer.evaluation import html_report
from transformer.evaluation.attention_maps import translation_map
from transformer.evaluation.metrics import (
    Reference,
    all_references,
    bleu_metric,
    check_metrics,
    check_tokenisation,
    reference_streams,
    score_by,
    score_with,
    secondary_metrics,
)
from transformer.evaluation.plots import AttentionMap
from transformer.evaluation.scores import (
    NUM_BOOTSTRAP,
    Score,
    TaskScores,
    corpus_perplexity,
    plain_table,
    samples,
    write_results,
)
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.parallel import hosts
from transformer.workdir import WorkDir

LOOP = re.compile(r"(?<!\S)((?:\S+ ){1,4})\1{3}")  # one to four words, four times in a row
FAULTS = ("empty", "copied", "repeating")  # report.html says what counts as which
MAP_WORDS = 8  # length of the sentences whose attention is drawn: short enough to be read
SEARCH = ("beam_size", "alpha", "length_penalty", "max_extra_length")  # kept with the scores
RANGES = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60))  # units of the source
LENGTHS = {f"{low}–{high}": (low, high) for low, high in RANGES} | {"61 and more": (61, None)}


@dataclass
class Segment:
    """One sentence of a test set.

    number: of its line, from 1. chrf: the chrF2 of this sentence alone. log_prob: of the
    translation, in nats; score: `log_prob` over the length penalty. reference_log_prob: None for a
    reference too long to be scored. faults: names of `FAULTS`. other_references: besides the first,
    if there are several.
    """

    number: int
    source: str
    reference: str
    translation: str
    chrf: float
    log_prob: float
    score: float
    reference_log_prob: float | None
    faults: list[str]
    other_references: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, without those references if there are none."""
        return {name: value for name, value in vars(self).items() if value != ()}


def text_sides(segments: Sequence[Segment]) -> tuple[list[str], list[Reference]]:
    """Returns (translations, references)."""
    references: list[Reference] = [(s.reference, *s.other_references) for s in segments]
    return [s.translation for s in segments], references


@dataclass(kw_only=True, repr=False)
class Evaluation(TaskScores):
    """What a translator reached on a test set.

    config: of its run. search: the options of the search. longest_source: tokens beyond which
    sources were cut. secondary: scores by other metrics and tokenisations. outputs: the faults and
    lengths that `_describe_outputs` counts. by_length: the primary metric by ranges of source
    lengths, in `length_unit`. maps: the attention of some translations, for report.html.
    """

    config: Config
    search: dict[str, Any]
    vocab_size: int
    longest_source: int
    segments: list[Segment]
    secondary: list[Score]
    outputs: dict[str, Any]
    length_unit: str
    by_length: dict[str, Score]
    maps: list[AttentionMap] = field(default_factory=list, compare=False)

    def worst_and_best(self, count: int = 5) -> tuple[list[Segment], list[Segment]]:
        """Returns the segments with the lowest chrF and, of the others, those with the highest.

        Of equal segments the longest counts as the best.
        """
        ordered = sorted(self.segments, key=lambda s: (s.chrf, len(s.reference), s.number))
        return ordered[:count], ordered[count:][::-1][:count]

    def to_json(self) -> dict[str, Any]:
        worst, best = self.worst_and_best()
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
        record = self.to_json()
        record["checkpoints"] = [
            {"checkpoint": row.checkpoint, "step": row.step, **row.scores_to_json()}
            for row in checkpoints
        ]
        with phase("writing the report"):
            page = html_report.render(self, workdir, checkpoints)
        files = {
            "translations.txt": "".join(f"{s.translation}\n" for s in self.segments),
            "segments.jsonl": [segment.to_json() for segment in self.segments],
            "report.html": page,
        }
        return write_results(workdir, name, record, files)


def evaluate_translator(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[Reference],
    corpus: str,
    *,
    num_maps: int = 3,
    metrics: Sequence[str] = (),
    **options: Any,
) -> Evaluation:
    """Returns the evaluation of a translator on sources with one or several references each.

    corpus: the name of the test set. num_maps: number of sentences whose attention is kept.
    metrics: further ones, as `check_metrics` knows them. options: of the search, as
    `Translator.translate` takes them. The perplexity is that of the first references. Several hosts
    share the work.
    """
    config = translator.config
    check_tokenisation(config.data.bleu_tokenize)  # before anything is compiled
    check_metrics(metrics)
    run, tokenizer = translator.run, translator.tokenizer
    several = [all_references(reference) for reference in references]

    def translate_and_score(share: Sequence[tuple[str, str]]) -> list[Any]:
        texts, targets = ([pair[side] for pair in share] for side in (0, 1))
        answers = translator.translate(texts, **options), translator.score(texts, targets)
        both = zip(*answers, strict=True)
        return [(vars(best), scored.log_prob, len(scored.ids)) for best, scored in both]

    first = [(source, texts[0]) for source, texts in zip(sources, several, strict=True)]
    rows = hosts.split_over_hosts(translate_and_score, first)
    translations = [Translation(**fields) for fields, _, _ in rows]
    with phase("computing the scores and their intervals"):
        result = make_evaluation(
            config,
            [translator.source_tokenizer.join_pieces(source) for source in sources],
            [tuple(map(tokenizer.join_pieces, texts)) for texts in several],
            translations,
            [(log_prob, length) for _, log_prob, length in rows],
            further_metrics=metrics,
            checkpoint=run.checkpoint,
            step=run.step,
            num_averaged=run.num_averaged,
            corpus=corpus,
            search={name: getattr(config.decoding, name) for name in SEARCH} | options,
            vocab_size=tokenizer.vocab_size,
            longest_source=translator.largest_bucket(),
        )
    whole = [index for index, t in enumerate(translations) if t.text and not t.is_cut]
    whole.sort(key=lambda index: abs(len(sources[index].split()) - MAP_WORDS))
    result.maps = [
        translation_map(translator, sources[index], translations[index])
        for index in counted(whole[:num_maps], "computing attention maps", len(whole[:num_maps]))
    ]
    return result


def make_evaluation(
    config: Config,
    sources: Sequence[str],
    references: Sequence[Reference],
    translations: Sequence[Translation],
    reference_scores: Sequence[tuple[float, int]],
    *,
    further_metrics: Sequence[str] = (),
    num_bootstrap: int = NUM_BOOTSTRAP,
    **fields: Any,
) -> Evaluation:
    """Scores translations and counts their faults.

    reference_scores: of each first reference the log-probability, nan if it is too long to be
    scored, and the tokens, EOS included. num_bootstrap: as in `metrics`. The others are those of
    `evaluate_translator` and the fields of `Evaluation`.
    """
    data = config.data
    segments = _make_segments(data.languages, sources, references, translations, reference_scores)
    direction, first, texts = "-".join(data.languages), data.selection_metric, text_sides(segments)
    score = partial(
        score_by, direction=direction, tokenize=data.bleu_tokenize, num_bootstrap=num_bootstrap
    )
    scores = {name: score(name, *texts) for name in dict.fromkeys((first, "bleu", "chrf"))}
    scores["perplexity"] = corpus_perplexity(
        reference_scores, direction, vocab_size=fields["vocab_size"], num_bootstrap=num_bootstrap
    )
    for name in further_metrics:
        kind = name.partition(":")[0]
        scores[name if kind in scores else kind] = score(name, *texts, sources=sources)
    by_words = has_spaces(data.source_language) and first != "line_error_rate"
    lengths = [len(split_text(source, by_words=by_words)) for source in sources]
    by_length = {}
    for name, (low, high) in LENGTHS.items():
        inside = [s for s, n in zip(segments, lengths, strict=True) if low <= n <= (high or n)]
        if inside:
            by_length[name] = score(first, *text_sides(inside))
    result = Evaluation(
        config=config,
        scores=scores,
        segments=segments,
        secondary=[
            score_with(name, metric, *texts, direction, num_bootstrap)
            for name, metric in secondary_metrics(data.bleu_tokenize).items()
        ],
        outputs=_describe_outputs(segments, config)
        | {"cut_sources": sum(translation.is_cut for translation in translations)},
        length_unit="words" if by_words else "characters",
        by_length=by_length,
        samples=samples(("source", "reference", "translation"), map(vars, segments)),
        **fields,
    )
    result.details = _details(result)
    return result


def _make_segments(languages: tuple[str, str], *columns: Sequence[Any]) -> list[Segment]:
    """Returns one `Segment` per sentence; columns: those that `make_evaluation` takes."""
    chrf, segments = CHRF(), []
    for number, row in enumerate(zip(*columns, strict=True), start=1):
        source, reference, translation, (log_prob, _) = row
        references = all_references(reference)
        segments.append(
            Segment(
                number=number,
                source=source,
                reference=references[0],
                translation=translation.text,
                chrf=chrf.sentence_score(translation.text, references).score,
                log_prob=translation.log_prob,
                score=translation.score,
                reference_log_prob=None if math.isnan(log_prob) else log_prob,
                faults=find_faults(source, translation.text, languages),
                other_references=references[1:],
            )
        )
    return segments


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


def _describe_outputs(segments: Sequence[Segment], config: Config) -> dict[str, Any]:
    """Returns "outputs" of report.json: faults and tokens of the translations and the references.

    The tokens are those of BLEU's brevity penalty.
    """
    languages, (translations, references) = config.data.languages, text_sides(segments)
    metric = bleu_metric(config.data.bleu_tokenize)
    bleu = metric.corpus_score(translations, reference_streams(references))
    tokens = {"translations": int(bleu.sys_len), "references": int(bleu.ref_len)}
    faults = {
        "translations": [s.faults for s in segments],
        "references": [find_faults(s.source, s.reference, languages) for s in segments],
    }
    counts = {side: Counter(chain.from_iterable(each)) for side, each in faults.items()}
    return {
        **{side: {name: count[name] for name in FAULTS} for side, count in counts.items()},
        "num_tokens": tokens,
        "length_ratio": tokens["translations"] / max(tokens["references"], 1),
    }


def split_text(text: str, *, by_words: bool) -> list[str]:
    """Splits a text into words at its spaces, or into characters without the spaces."""
    return text.split() if by_words else list("".join(text.split()))


def find_faults(source: str, translation: str, languages: tuple[str, str]) -> list[str]:
    """Returns the names of the `FAULTS` that a translation has; languages: of the two texts."""
    source, translation = source.strip().casefold(), translation.strip().casefold()
    if not translation:
        return ["empty"] if source else []
    source_loops, translation_loops = (
        _has_loop(split_text(text, by_words=has_spaces(language)))
        for text, language in zip((source, translation), languages, strict=True)
    )
    is_copied, is_repeating = translation == source, translation_loops and not source_loops
    return ["copied"] * is_copied + ["repeating"] * is_repeating


def _has_loop(words: Sequence[str]) -> bool:
    """Whether 1 to 4 words come four times in a row, or the same four words three times."""
    fours = Counter(zip(words, words[1:], words[2:], words[3:], strict=False))
    in_a_row = LOOP.search("".join(f"{word} " for word in words))
    return in_a_row is not None or max(fours.values(), default=0) >= 3
