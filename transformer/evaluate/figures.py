"""The figures of report.html: curves of the training and of checkpoints, maps of attention."""

from html import escape

from transformer.evaluate import svg
from transformer.evaluate.metrics import METRICS, scores_in

COLOURS = {"loss": "a", "validation_loss": "b", "learning_rate": "d"}


def training_curves(records):
    """Loss, selection_metric and learning rate over steps; records as in metrics.jsonl."""

    def line(label, name):
        points = [(record["step"], record[name]) for record in records if name in record]
        return svg.Line(label, COLOURS.get(name, "c"), points)

    losses = [
        line("training (smoothed labels, dropout)", "loss"),
        line("validation", "validation_loss"),
    ]
    charts = [
        svg.chart(losses, "loss, nats per piece"),
        *(svg.chart([line("validation", f"validation_{m}")], name) for m, name in METRICS.items()),
        svg.chart([line("", "learning_rate")], "learning rate"),
    ]
    return _section("Training", f'<div class="charts">{"".join(charts)}</div>', any(charts))


def score_curves(rows):
    """The first score and perplexity of a test set over the checkpoints."""
    first = next(iter(scores_in(rows[0])))
    charts = (_score_curve(rows, *named) for named in ((first, "c"), ("perplexity", "b")))
    return f'<div class="charts">{"".join(charts)}</div>'


def _score_curve(rows, name, colour):
    """A score over the steps; means of several checkpoints are points at their last step."""
    points = {False: [], True: []}
    for row in rows:
        if row["step"] is not None:
            is_mean = row["checkpoint"].startswith("mean")
            points[is_mean].append((row["step"], row[name].value))
    lines = [
        svg.Line("one checkpoint", colour, sorted(points[False])),
        svg.Line("a mean of several", "a", sorted(points[True]), joined=False),
    ]
    return svg.chart(lines, f"test {rows[0][name].name}")


def attention_maps(maps):
    """A row of maps a sentence, one a layer. maps: as `evaluation` makes them."""
    parts = [
        '<p class="quiet">Where the decoder looked in the source (across) when it chose a piece of '
        "the translation (down): the mean over the heads of a layer.</p>"
    ]
    for seen in maps:
        layers = "".join(
            svg.weight_map(*seen["pieces"], weights, f"layer {number}")
            for number, weights in enumerate(seen["weights"], start=1)
        )
        title = f"{seen['source']} → {seen['translation']}"
        parts.append(f'<h3>{escape(title)}</h3>\n<div class="maps">{layers}</div>')
    return _section("Attention", "\n".join(parts), maps)


def _section(title, body, is_needed):
    return f"<h2>{title}</h2>\n{body}" if is_needed else ""
