"""report.html: scores, curves, attention and segments of a test set on one self-contained page."""

from html import escape

from transformer.evaluate import svg
from transformer.evaluate.figures import attention_maps, score_curves, training_curves
from transformer.evaluate.metrics import scores_in
from transformer.evaluate.output_checks import DEFINITIONS
from transformer.evaluate.segments import worst_and_best
from transformer.evaluate.web_page import marked, page, side_by_side, table


def render(result, title, *, curves=(), checkpoints=(), comparison=None):
    """The page as text, of an `Evaluation`.

    curves: records as in metrics.jsonl; checkpoints: rows of `checkpoint_series.checkpoint_row`;
    comparison: a `Comparison` or None.
    """
    worst, best = worst_and_best(result.segments)
    languages = result.settings.languages
    sections = [
        _head(result, title),
        _scores(result),
        _comparison(comparison) if comparison else "",
        _checkpoints(checkpoints) if len(checkpoints) > 1 else "",
        _lengths(result),
        _outputs(result.outputs, result.settings.longest_source),
        training_curves(curves),
        attention_maps(result.maps),
        _differing(comparison, languages) if comparison else "",
        _segments("Worst segments", worst, languages),
        _segments("Best segments", best, languages),
        HOW_COUNTED,
    ]
    head = f"{title}: {result.primary.name} {result.primary.figures}"
    return page(head, "\n".join(section for section in sections if section))


HOW_COUNTED = (
    '<h2>How it is counted</h2>\n<p class="quiet">± is half a 95% interval of sacrebleu\'s '
    "bootstrap over sentences. Perplexity is of the references, a piece of this run's vocabulary "
    "at a time, the end of a sentence counted as one, without dropout or label smoothing; runs "
    "with another vocabulary have another. The chrF of a segment is that of it alone. Underlined "
    "words are not in the reference at that place. report.json holds the figures, segments.jsonl "
    "every segment, translations.txt the translations.</p>"
)


def _head(result, title):
    settings = result.settings
    facts = [
        settings.direction,
        settings.corpus,
        f"{len(result.segments):,} sentences",
        f"checkpoint {settings.checkpoint}",
        ", ".join(f"{name} {value}" for name, value in settings.search.items()),
    ]
    return f'<h1>{escape(title)}</h1>\n<p class="quiet">{escape(" · ".join(facts))}</p>'


def _scores(result):
    tiles = "".join(
        f'<div class="tile"><span class="quiet">{escape(score.name)}</span>'
        f"<b>{_figures(score)}</b><code>{escape(score.signature)}</code></div>"
        for score in result.scores.values()
    )
    rows = [
        (f"{escape(score.name)}<br><code>{escape(score.signature)}</code>", _figures(score))
        for score in result.secondary
    ]
    second = table(("score and signature", "value"), rows, numbers={1})
    title = "<h3>The same translations, scored otherwise</h3>"
    return f'<div class="tiles">{tiles}</div>\n{title}\n{second}'


def _figures(score):
    value, *around = score.figures.split(" ± ")
    return value + "".join(f" <small>± {half}</small>" for half in around)


def _checkpoints(rows):
    scores = [list(scores_in(row).values()) for row in rows]
    cells = [
        (escape(row["checkpoint"]), *map(_figures, some))
        for row, some in zip(rows, scores, strict=True)
    ]
    heads = ("checkpoint", *(score.name for score in scores[0]))
    numbers = table(heads, cells, numbers=set(range(1, len(heads))))
    return (
        f"<h2>Checkpoints</h2>\n{score_curves(rows)}\n{numbers}\n"
        f'<p class="quiet">The rest of this page is of the last one. A checkpoint that is chosen '
        f"by its score on a test set flatters that score.</p>"
    )


def _lengths(result):
    scores = [row["score"] for row in result.by_length]
    largest = max((score.value + (score.interval or 0) for score in scores), default=0)
    rows = [
        (
            length_range(row),
            f"{score.num_sentences:,}",
            _figures(score),
            svg.bar(score.value, score.interval, largest),
        )
        for row, score in zip(result.by_length, scores, strict=True)
    ]
    heads = (f"{result.settings.length_unit} of the source", "sentences", result.primary.name, "")
    return "<h2>By length of the source</h2>\n" + table(heads, rows, numbers={1, 2})


def length_range(row):
    """The lengths of a row of `score_by_length`, as printed."""
    return f"{row['from']}–{row['to']}" if row["to"] else f"{row['from']} and more"


def _outputs(outputs, longest_source):
    names = ("translations", "references")
    rows = [(name, *(f"{outputs[side][name]:,}" for side in names)) for name in DEFINITIONS]
    rows.append(("tokens", *(f"{outputs['num_tokens'][side]:,}" for side in names)))
    notes = [f"{name}: {meaning}." for name, meaning in DEFINITIONS.items()]
    notes += [
        f"tokens: as BLEU counts them; the ratio is {outputs['length_ratio']:.3f}.",
        f"{outputs['cut_sources']:,} sources were longer than {longest_source:,} pieces and were "
        f"cut there.",
    ]
    return (
        f"<h2>Outputs</h2>\n{table(('', *names), rows, numbers={1, 2})}\n"
        f'<p class="quiet">{"<br>".join(map(escape, notes))}</p>'
    )


def _segments(title, segments, languages):
    return "\n".join(
        [f"<h2>{title}</h2>"] * bool(segments) + [_segment(s, languages) for s in segments]
    )


def _segment(segment, languages):
    texts = _given(segment, languages) | {
        "translation": (marked(segment.translation, segment.reference), languages[1])
    }
    found = "".join(f", {name}" for name in segment.faults)
    return side_by_side(f"line {segment.number:,}: chrF {segment.chrf:.1f}{found}", texts)


def _given(segment, languages):
    return {
        "source": (escape(segment.source), languages[0]),
        "reference": (escape(segment.reference), languages[1]),
    }


def _comparison(comparison):
    rows = [
        (
            escape(test.ours.name),
            _figures(test.ours),
            _figures(test.theirs),
            f"{test.difference:+.2f}",
            f"{test.p_bootstrap:.4f}",
            f"{test.p_randomisation:.4f}",
        )
        for test in comparison.tests
    ]
    signatures = [
        f"{escape(test.ours.name)} <code>{escape(signature)}</code>"
        for test in comparison.tests
        for signature in test.signatures
    ]
    heads = ("score", *comparison.names, "difference", "p, bootstrap", "p, randomisation")
    return (
        f"<h2>Comparison</h2>\n{table(heads, rows, numbers={1, 2, 3, 4, 5})}\n"
        f'<p class="quiet">{escape(comparison.explanation)}</p>\n'
        f'<p class="quiet">{"<br>".join(signatures)}</p>'
    )


def _differing(comparison, languages):
    parts = ["<h2>Segments that differ most</h2>"]
    for title, pairs in comparison.differing().items():
        parts += [f"<h3>{escape(title)}</h3>"] * bool(pairs)
        parts += [_pair(pair, comparison.names, languages) for pair in pairs]
    return "\n".join(parts) if len(parts) > 1 else ""


def _pair(pair, names, languages):
    ours, theirs = pair
    texts = _given(ours, languages)
    for name, segment in zip(names, pair, strict=True):
        texts[name] = marked(segment.translation, segment.reference), languages[1]
    label = f"line {ours.number:,}: chrF {ours.chrf:.1f} and {theirs.chrf:.1f}"
    return side_by_side(label, texts)
