"""A test set and a translator: what it makes of it, and where it looks meanwhile."""

import numpy as np

from transformer.evaluate.evaluation import EvaluationSettings, make_evaluation
from transformer.evaluate.segments import make_segments
from transformer.inference.translation import Translation
from transformer.parallel.hosts import split_over_hosts

MAP_WORDS = 8  # of the sentences whose attention is drawn, or nearly so: few enough to be read


def evaluate_translator(translator, pairs, corpus, *, num_maps=3, **options):
    """An `Evaluation` of pairs (source, reference); search `options` as `translate` takes them.

    num_maps: in how many sentences to look at the attention.
    """
    inputs, targets = (list(side) for side in zip(*pairs, strict=True))
    found = split_over_hosts(lambda part: _translate(translator, part, options), inputs)
    scored = split_over_hosts(
        lambda part: _score(translator, part), list(zip(inputs, targets, strict=True))
    )
    settings = _settings_of(translator, corpus, options)
    segments = make_segments(
        [translator.source_tokenizer.join_pieces(text) for text in inputs],
        [translator.tokenizer.join_pieces(text) for text in targets],
        [(text, log_prob, score) for text, score, log_prob, _ in found],
        [log_prob for log_prob, _ in scored],
        settings.languages,
    )
    lengths = map(len, translator.source_tokenizer.encode(inputs))
    num_cut = sum(length > settings.longest_source for length in lengths)
    result = make_evaluation(settings, segments, [count for _, count in scored], num_cut)
    result.maps = [
        _attention_map(translator, inputs[place], *found[place])
        for place in _readable(inputs, found)[:num_maps]
    ]
    return result


def _translate(translator, sources, options):
    """(text, score, log-probability, ids) of each translation."""
    found = translator.translate(sources, **options)
    return [(t.text, t.score, t.log_prob, t.ids) for t in found]


def _score(translator, pairs):
    """(log-probability, number of pieces) of each target given its source."""
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    return [(s.log_prob, s.num_pieces) for s in translator.score(sources, targets)]


def _settings_of(translator, corpus, options):
    data, decoding = translator.config.data, translator.config.decoding
    names = ("beam_size", "alpha", "length_penalty", "max_extra_length")
    return EvaluationSettings(
        translator.checkpoint,
        corpus,
        data.source_language,
        data.target_language,
        data.bleu_tokenize,
        translator.tokenizer.vocab_size,
        translator.largest_bucket(),
        {name: getattr(decoding, name) for name in names} | options,
        data.selection_metric,
    )


def _readable(inputs, found):
    """The places of translated sentences, those of about `MAP_WORDS` words first."""
    places = [place for place, (text, *_) in enumerate(found) if text]
    return sorted(places, key=lambda place: (abs(len(inputs[place].split()) - MAP_WORDS), place))


def _attention_map(translator, source, text, score, log_prob, ids):
    """Where the decoder looked in the mean over heads; weights [layers][T][S]."""
    translation = Translation(text=text, score=score, log_prob=log_prob, ids=ids)
    *pieces, weights = translator.attention(source, translation)
    return {
        "source": translator.source_tokenizer.join_pieces(source),
        "translation": text,
        "pieces": pieces,
        "weights": np.mean(weights, axis=1).tolist(),
    }
