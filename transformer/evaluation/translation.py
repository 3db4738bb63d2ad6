"""Evaluates a translator: translates a test set, scores its references, draws attention."""

from collections.abc import Sequence
from typing import Any

from transformer.console import counted, phase
from transformer.evaluation.attention_maps import translation_map
from transformer.evaluation.bleu_tokenisation import check_tokenisation
from transformer.evaluation.evaluation import Evaluation, EvaluationSettings, make_evaluation
from transformer.evaluation.further_metrics import check_metrics
from transformer.evaluation.metrics import Reference, all_references
from transformer.evaluation.segments import make_segments
from transformer.inference.translation import Translation
from transformer.inference.translator import Translator
from transformer.parallel.hosts import split_over_hosts

MAP_WORDS = 8  # length of the sentences whose attention is drawn: short enough to be read


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
    check_tokenisation(translator.config.data.bleu_tokenize)  # before anything is compiled
    check_metrics(metrics)
    sources = [source for source, _ in pairs]
    references = [all_references(reference) for _, reference in pairs]

    def translate(part: Sequence[str]) -> list[dict[str, Any]]:
        return [_as_json(t) for t in translator.translate(list(part), **options)]

    def score_references(part: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        scored = translator.score(*([pair[side] for pair in part] for side in (0, 1)))
        return [(reference.log_prob, reference.num_pieces) for reference in scored]

    translations = [Translation(**fields) for fields in split_over_hosts(translate, sources)]
    first = [(source, texts[0]) for source, texts in zip(sources, references, strict=True)]
    scored = split_over_hosts(score_references, first)
    settings = _settings_of(translator, options)
    segments = make_segments(
        [translator.source_tokenizer.join_pieces(text) for text in sources],
        [tuple(map(translator.tokenizer.join_pieces, texts)) for texts in references],
        translations,
        [log_prob for log_prob, _ in scored],
        settings.languages,
    )
    with phase("computing the scores and their intervals"):
        result = make_evaluation(
            settings,
            segments,
            [length for _, length in scored],
            checkpoint=translator.run.checkpoint,
            step=translator.run.step,
            num_averaged=translator.run.num_averaged,
            corpus=corpus,
            num_cut=sum(translation.is_cut for translation in translations),
            further_metrics=metrics,
        )
    shown = _by_readability(sources, translations)[:num_maps]
    result.maps = [
        translation_map(translator, sources[index], translations[index])
        for index in counted(shown, "computing attention maps", len(shown))
    ]
    return result


def _as_json(translation: Translation) -> dict[str, Any]:
    """Returns the fields of a translation that other hosts are sent, as JSON."""
    names = ("text", "score", "log_prob", "ids", "is_cut")
    return {name: getattr(translation, name) for name in names}


def _settings_of(translator: Translator, options: dict[str, Any]) -> EvaluationSettings:
    data, decoding = translator.config.data, translator.config.decoding
    names = ("beam_size", "alpha", "length_penalty", "max_extra_length")
    return EvaluationSettings(
        source_language=data.source_language,
        target_language=data.target_language,
        tokenize=data.bleu_tokenize,
        vocab_size=translator.tokenizer.vocab_size,
        longest_source=translator.largest_bucket(),
        search={name: getattr(decoding, name) for name in names} | options,
        selection_metric=data.selection_metric,
    )


def _by_readability(sources: Sequence[str], translations: Sequence[Translation]) -> list[int]:
    """Returns the indices of whole translations, sources of about `MAP_WORDS` words first."""
    indices = [index for index, t in enumerate(translations) if t.text and not t.is_cut]
    return sorted(indices, key=lambda index: (abs(len(sources[index].split()) - MAP_WORDS), index))
