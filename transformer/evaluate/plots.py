"""Pictures: the curves of a run, and where a translation looked (matplotlib, an extra)."""

import io

import numpy as np
from etils import epath

from transformer.evaluate.metrics import METRICS
from transformer.storage import write_atomically


def _pyplot():
    try:
        import matplotlib
    except ImportError:
        raise ValueError(
            "Pictures need matplotlib: pip install matplotlib (the extra 'pictures')."
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def plot_curves(records, path, title=""):
    """Loss, selection_metric and learning rate over steps; records as in metrics.jsonl."""
    pyplot = _pyplot()
    figure, (loss, rate) = pyplot.subplots(
        2, 1, sharex=True, figsize=(8, 6), height_ratios=(3, 1), layout="constrained"
    )
    loss.plot(*_series(records, "loss"), label="training loss (smoothed labels)", color="tab:gray")
    loss.plot(*_series(records, "validation_loss"), "o-", label="validation loss", color="tab:blue")
    loss.set(ylabel="nats per piece", title=title)
    handles = loss.lines[:]
    for selection_metric, name in (METRICS | {"accuracy": "accuracy"}).items():
        steps, values = _series(records, f"validation_{selection_metric}")
        if steps:
            score = loss.twinx()
            handles += score.plot(steps, values, "s-", label=f"validation {name}", color="tab:red")
            score.set(ylabel=name, ylim=(0, 100 if max(values) > 60 else 1.2 * max(values) + 1))
    loss.legend(handles=handles, loc="center right")
    rate.plot(*_series(records, "learning_rate"), color="tab:green")
    rate.set(xlabel="step", ylabel="learning rate")
    for axes in (loss, rate):
        axes.grid(alpha=0.3)
    _save(figure, path)


def _save(figure, path):
    """Draws it in memory, so that a picture may lie in an object store."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=100, format=epath.Path(path).suffix[1:] or None)
    _pyplot().close(figure)
    write_atomically(path, picture.getvalue())


def _series(records, name):
    """(steps, values) of one metric."""
    points = [(record["step"], record[name]) for record in records if name in record]
    return [list(column) for column in zip(*points, strict=True)] or [[], []]


def plot_attention(source, target, weights, path, translation=""):
    """Encoder-decoder attention, mean over heads, a panel a layer.

    source, target: lists of pieces; weights [layers, N, T, S].
    """
    pyplot = _pyplot()
    num_layers = len(weights)
    width = max(3.0, 0.32 * len(source)) * num_layers + 1
    height = max(2.5, 0.3 * len(target)) + 1.6
    figure, panels = pyplot.subplots(
        1, num_layers, sharey=True, squeeze=False, figsize=(width, height), layout="constrained"
    )
    for layer, axes in enumerate(panels[0]):
        axes.imshow(np.mean(weights[layer], axis=0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(source)), [_visible(p) for p in source], rotation=90)
        axes.set_yticks(range(len(target)), [_visible(p) for p in target])
        axes.set_title(f"layer {layer + 1}", fontsize=10)
    figure.suptitle(_visible(translation), fontsize=10)
    _save(figure, path)


def _visible(piece):
    """A piece as a label: matplotlib must not take a $ for mathematics."""
    return piece.replace("▁", "·").replace("$", r"\$")
