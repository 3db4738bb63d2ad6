"""Pictures as SVG text for a page: curves over steps, and maps of weights. No library draws them.

Colours are classes of the page's style sheet: "a" to "d" for lines, "cell" for a map.
"""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 360, 210  # of a chart; about the pixels of a phone, so that its text stays readable
LEFT, RIGHT, TOP, BOTTOM = 44, 18, 10, 34  # margins of a chart
MOST_POINTS = 400  # of a line; of more, every n-th is drawn
CELL = 18  # of a map, in pixels
LONGEST_LABEL = 14  # characters


@dataclass
class Line:
    """A line of a chart. colour: a class of the page; joined: a line, else its points alone."""

    label: str
    colour: str
    points: list[tuple[float, float]]  # (step, value)
    joined: bool = True


def chart(lines, y_label):
    """A figure of lines over steps with its legend; "" if there is nothing to draw."""
    lines = [_thinned(line) for line in lines]
    lines = [line for line in lines if line.points]
    if not lines:
        return ""
    xs = _axis([x for line in lines for x, _ in line.points], smallest=1)
    ys = _axis([y for line in lines for _, y in line.points])

    def place(x, y):
        across = (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)
        up = (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    drawn = [_drawn(line, place) for line in lines]
    legend = "".join(
        f'<span><i class="{line.colour}"></i>{escape(line.label)}</span>'
        for line in lines
        if line.label
    )
    return (
        f'<figure><svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(y_label)} over steps">{_grid(xs, ys, place)}{"".join(drawn)}</svg>'
        f"<figcaption><b>{escape(y_label)}</b> {legend}</figcaption></figure>"
    )


def _thinned(line):
    """The line without what is not finite, and with no more points than can be seen."""
    points = [(x, y) for x, y in line.points if y is not None and math.isfinite(y)]
    every = -(-len(points) // MOST_POINTS)
    kept = points[:: every or 1]
    kept += points[-1:] if points and kept[-1] != points[-1] else []
    return Line(line.label, line.colour, kept, line.joined)


def _axis(values, smallest=0.0):
    """Round numbers at equal distances, `smallest` at least, around all the values."""
    low, high = min(values), max(values)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = max((high - low) / 4, smallest)
    magnitude = 10 ** math.floor(math.log10(rough))
    step = min((m * magnitude for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _grid(xs, ys, place):
    parts = []
    for y in ys:
        left, height = place(xs[0], y)
        parts.append(f'<line class="grid" x1="{left}" x2="{WIDTH - RIGHT}" y1="{height}" ')
        parts.append(f'y2="{height}"/><text x="{left - 5}" y="{height + 3.5}" ')
        parts.append(f'text-anchor="end">{_number(y)}</text>')
    for x in xs[:: -(-len(xs) // 6)]:
        left, height = place(x, ys[0])
        parts.append(f'<text x="{left}" y="{height + 14}" text-anchor="middle">{_number(x)}</text>')
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">step</text>')
    return "".join(parts)


def _number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _drawn(line, place):
    places = [place(x, y) for x, y in line.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    drawn = f'<polyline class="{line.colour}" points="{path}"/>' if line.joined else ""
    if len(places) <= 40:
        dots = "".join(f'<circle cx="{x}" cy="{y}" r="2.2"/>' for x, y in places)
        drawn += f'<g class="{line.colour}">{dots}</g>'
    return drawn


def bar(value, interval, largest):
    """A bar from 0 to `largest` with a whisker of ± interval, for a cell of a table."""
    across = 100 / (largest or 1)
    low, high = ((value + sign * (interval or 0)) * across for sign in (-1, 1))
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="cell" width="{value * across:.1f}" height="8"/>'
        f'<line class="whisker" x1="{max(low, 0):.1f}" x2="{min(high, 100):.1f}" y1="4" y2="4"/>'
        f"</svg>"
    )


def weight_map(columns, rows, weights, title):
    """A figure of weights[row][column], each a shade: the largest is the full colour."""
    largest = max((weight for row in weights for weight in row), default=0) or 1
    left = 12 + 6.5 * max(len(_short(label)) for label in rows)
    top = 12 + 6.5 * max(len(_short(label)) for label in columns)
    parts = []
    for number, label in enumerate(columns):
        x = left + (number + 0.5) * CELL + 4
        turned = f'transform="rotate(-90 {x:.1f} {top - 5:.1f})"'
        parts.append(f'<text x="{x:.1f}" y="{top - 5:.1f}" {turned}>{escape(_short(label))}</text>')
    for number, label in enumerate(rows):
        y = top + number * CELL
        place = f'x="{left - 5:.1f}" y="{y + 13:.1f}" text-anchor="end"'
        parts.append(f"<text {place}>{escape(_short(label))}</text>")
        for column, weight in enumerate(weights[number]):
            if weight >= 0.01 * largest:
                place = f'x="{left + column * CELL:.1f}" y="{y:.1f}"'
                shade = f'fill-opacity="{weight / largest:.2f}"'
                parts.append(f'<rect class="cell" {place} {shade} width="17" height="17"/>')
    width, height = left + len(columns) * CELL + 4, top + len(rows) * CELL + 4
    return (
        f'<figure><svg class="map" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
        f"<figcaption>{escape(title)}, darkest {largest:.2f}</figcaption></figure>"
    )


def _short(piece):
    """A piece as a label."""
    piece = piece.replace("▁", "·")
    return piece if len(piece) <= LONGEST_LABEL else piece[: LONGEST_LABEL - 1] + "…"
