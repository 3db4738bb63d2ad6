"""Draws the figures of the documentation: python tools/draw_figures.py [FOLDER]

architecture.svg: the model of the paper (Figure 1), with the module that holds each part.
positions.svg: the table of sinusoidal positions, and how alike two positions are.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from transformer.config import ModelConfig
from transformer.model.embedding import SinusoidalPositions

INK, GREY = "#20252b", "#5d6670"
EMBEDDING, ATTENTION, FEED_FORWARD, NORM, OUTPUT = (
    "#f4d9d6", "#f6e3c5", "#cfe5f3", "#f3f2c6", "#dad7ec",
)  # fmt: skip
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "",
    "text.color": INK,
}
WIDTH, HEIGHT = 2.9, 0.62  # of a box
ENCODER, DECODER = 0.9, 5.9  # left edges
# (bottom, text, module, colour) of the boxes of each column, from the input up.
ENCODER_BOXES = [
    (1.1, "Embedding · √d + position", "model/embedding.py", EMBEDDING),
    (3.0, "Multi-head attention", "model/attention.py", ATTENTION),
    (3.9, "Add, LayerNorm", "model/layers.py", NORM),
    (5.2, "Feed-forward", "model/layers.py", FEED_FORWARD),
    (6.1, "Add, LayerNorm", "model/layers.py", NORM),
]
DECODER_BOXES = [
    (1.1, "Embedding · √d + position", "model/embedding.py", EMBEDDING),
    (3.0, "Causal multi-head attention", "model/attention.py", ATTENTION),
    (3.9, "Add, LayerNorm", "model/layers.py", NORM),
    (5.2, "Multi-head attention", "model/attention.py", ATTENTION),
    (6.1, "Add, LayerNorm", "model/layers.py", NORM),
    (7.4, "Feed-forward", "model/layers.py", FEED_FORWARD),
    (8.3, "Add, LayerNorm", "model/layers.py", NORM),
    (9.7, "Embedding transposed", "model/embedding.py", OUTPUT),
    (10.6, "Softmax", "model/loss.py, search/", OUTPUT),
]


def draw_architecture(figure):
    """Draws encoder and decoder side by side, the flow of vectors from the bottom up."""
    figure.set_size_inches(8.2, 9.0)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-0.3, 10.2), ylim=(-0.1, 12.1))
    axes.axis("off")
    stack(axes, ENCODER, 2.3, 6.95)
    stack(axes, DECODER, 2.3, 9.15)
    column(axes, ENCODER, ENCODER_BOXES, "source ids [B, S]", "")
    column(axes, DECODER, DECODER_BOXES, "target ids, shifted by BOS [B, T]", "p(token) [B, T, V]")
    middle = ENCODER + WIDTH / 2
    path = [(middle, 6.72), (middle, 7.3), (5.1, 7.3), (5.1, 5.51), (DECODER - 0.3, 5.51)]
    axes.plot(*zip(*path, strict=True), color=INK, linewidth=1)
    arrow(axes, path[-1], (DECODER, 5.51))
    axes.text(3.7, 7.42, "encoded source [B, S, D]", ha="center", color=GREY, fontsize=8)
    residuals(axes, ENCODER, [(2.65, 4.21), (4.85, 6.41)])
    residuals(axes, DECODER, [(2.65, 4.21), (4.85, 6.41), (7.05, 8.61)], is_right=True)


def stack(axes, left, bottom, top):
    """Draws the frame of the layers of a stack."""
    frame = Rectangle(
        (left - 0.45, bottom), WIDTH + 0.9, top - bottom, fill=False, edgecolor=GREY, linewidth=0.8
    )
    axes.add_patch(frame)
    side = left - 0.55 if left == ENCODER else left + WIDTH + 0.55
    ha = "right" if left == ENCODER else "left"
    axes.text(side, (bottom + top) / 2, "N ×", ha=ha, va="center", fontsize=11)


def column(axes, left, boxes, below, above):
    """Draws boxes with arrows from each to the next; below, above: what goes in and comes out."""
    middle = left + WIDTH / 2
    arrow(axes, (middle, 0.45), (middle, boxes[0][0]))
    axes.text(middle, 0.2, below, ha="center", color=GREY)
    for (bottom, text, module, colour), after in zip(boxes, [*boxes[1:], None], strict=True):
        box = FancyBboxPatch(
            (left, bottom), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=colour, edgecolor=INK, linewidth=0.8,
        )  # fmt: skip
        axes.add_patch(box)
        axes.text(middle, bottom + 0.4, text, ha="center", va="center")
        axes.text(middle, bottom + 0.16, module, ha="center", va="center", color=GREY, fontsize=6.5)
        if after:
            arrow(axes, (middle, bottom + HEIGHT), (middle, after[0]))
    if above:
        top = boxes[-1][0] + HEIGHT
        arrow(axes, (middle, top), (middle, top + 0.45))
        axes.text(middle, top + 0.5, above, ha="center", color=GREY)


def residuals(axes, left, spans, *, is_right=False):
    """Draws the residual connections around sub-layers, from the input to the addition."""
    edge = left + WIDTH if is_right else left
    outside = edge + (0.25 if is_right else -0.25)
    for bottom, top in spans:
        path = [(left + WIDTH / 2, bottom), (outside, bottom), (outside, top)]
        axes.plot(*zip(*path, strict=True), color=INK, linewidth=1)
        arrow(axes, (outside, top), (edge, top))


def arrow(axes, start, end):
    """Draws an arrow between two points."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=8, shrinkA=0, shrinkB=0, color=INK
        )
    )


def draw_positions(figure):
    """Draws the table of positions, and the products of its rows by their distance."""
    length, width = 64, 64
    config = ModelConfig(d_model=width)
    table = np.asarray(SinusoidalPositions(config).apply({}, np.arange(length)))
    figure.set_size_inches(8.2, 3.0)
    values, likeness = figure.subplots(1, 2, width_ratios=(1.3, 1))
    mesh = values.pcolormesh(table, cmap="RdBu", vmin=-1, vmax=1, rasterized=True)
    figure.colorbar(mesh, ax=values)
    values.set(xlabel="dimension", ylabel="position", title=f"PE, d_model = {width}")
    values.invert_yaxis()
    for position in (8, 32, 48):
        products = table @ table[position] / (table[position] @ table[position])
        likeness.plot(np.arange(length) - position, products, label=f"position {position}")
    likeness.set(xlabel="distance", title="product of two positions / (d_model / 2)")
    likeness.legend(frameon=False)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    with matplotlib.rc_context(STYLE):
        for draw, name in ((draw_architecture, "architecture"), (draw_positions, "positions")):
            figure = Figure(layout=None if name == "architecture" else "constrained")
            draw(figure)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, dpi=100)
