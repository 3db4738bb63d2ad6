"""A page of HTML that needs nothing else: its frame and style, tables, texts side by side."""

import difflib
from html import escape

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f7f9; --ink: #20252b;
  --quiet: #667080; --rule: #e1e5ea; --blue: #33659f; --red: #b0493f; --green: #457f58;
  --grey: #9aa3af; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --raised: #1d2126; --ink: #dde2e8;
  --quiet: #939dab; --rule: #2e343c; --blue: #7fa9dc; --red: #dd8378; --green: #82b893;
  --grey: #6d7683; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { margin: 0; font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { margin: 2.6rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--rule);
  font-size: 1.1rem; }
h3 { margin: 1.4rem 0 .4rem; font-size: .95rem; }
p { margin: .3rem 0; max-width: 46rem; overflow-wrap: anywhere; }
.quiet, figcaption, th, dt { color: var(--quiet); }
.quiet, figcaption { font-size: .87rem; }
code { font: .8rem/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  color: var(--quiet); overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .4rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem 1.2rem .28rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: baseline; }
th { font-weight: 500; font-size: .87rem; }
.number { text-align: right; }
td.number { white-space: nowrap; }
.number small { display: inline-block; min-width: 3.6em; text-align: left; color: var(--quiet); }
.tiles { display: grid; gap: .8rem; margin: 1.2rem 0 .4rem;
  grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); }
.tile { padding: .8rem 1rem; border-radius: 8px; background: var(--raised); }
.tile b { display: block; font-size: 1.9rem; font-weight: 600; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.tile b small { font-size: .95rem; font-weight: 400; color: var(--quiet); }
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); }
.maps { display: flex; gap: 1rem; overflow-x: auto; padding-bottom: .5rem; }
figure { margin: 0; }
figure b { color: var(--ink); font-weight: 500; }
figcaption span { margin-left: .8rem; white-space: nowrap; }
figcaption i { display: inline-block; width: .7rem; height: .7rem; margin-right: .3rem;
  border-radius: 2px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--quiet); }
svg.chart { width: 100%; max-width: 34rem; }
svg.bar { width: 8rem; height: .7rem; vertical-align: middle; }
.grid { stroke: var(--rule); }
polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.a { stroke: var(--grey); fill: var(--grey); background: var(--grey); }
.b { stroke: var(--blue); fill: var(--blue); background: var(--blue); }
.c { stroke: var(--red); fill: var(--red); background: var(--red); }
.d { stroke: var(--green); fill: var(--green); background: var(--green); }
polyline.a, polyline.b, polyline.c, polyline.d { fill: none; }
.cell { fill: var(--blue); }
svg.bar .cell { fill-opacity: .55; }
.whisker { stroke: var(--ink); stroke-width: 1.5; vector-effect: non-scaling-stroke; }
.segment { margin: .7rem 0; padding: .6rem .9rem; border-radius: 8px; background: var(--raised); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .9rem; margin: .2rem 0 0; }
dt { font-size: .87rem; }
dd { margin: 0; overflow-wrap: anywhere; }
mark { background: none; color: inherit; text-decoration: underline 2px var(--red);
  text-underline-offset: 3px; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } }
"""
# Nothing may be fetched and no script may run, whatever a translation spells.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(title, body):
    """The whole page; `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def table(heads, rows, numbers=()):
    """A table; heads are text, cells HTML. numbers: the columns that are aligned to the right."""

    def row(tag, cells):
        kinds = [' class="number"' if place in numbers else "" for place in range(len(cells))]
        filled = zip(kinds, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in filled)}</tr>"

    lines = [row("th", [escape(head) for head in heads]), *(row("td", cells) for cells in rows)]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'


def side_by_side(label, texts):
    """Texts under one another. label: HTML; texts: name -> (HTML, language)."""
    entries = "".join(
        f'<dt>{escape(name)}</dt><dd lang="{escape(language)}" dir="auto">{text}</dd>'
        for name, (text, language) in texts.items()
    )
    return f'<div class="segment"><span class="quiet">{label}</span><dl>{entries}</dl></div>'


def marked(text, reference):
    """The text as HTML, its words that the reference has not at that place underlined."""
    ours, theirs = text.split(), reference.split()
    parts = []
    for kind, start, end, _, _ in difflib.SequenceMatcher(
        None, ours, theirs, autojunk=False
    ).get_opcodes():
        words = escape(" ".join(ours[start:end]))
        if words:
            parts.append(words if kind == "equal" else f"<mark>{words}</mark>")
    return " ".join(parts) or '<span class="quiet">(nothing)</span>'
