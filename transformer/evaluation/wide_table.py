"""A table as text that fits a terminal: too wide a one continues below, under its first column."""

from collections.abc import Sequence

GAP = 2  # spaces between two columns


def fitted_table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """Returns the lines of a table; None: of any width.

    Its first column is aligned left and the others right. In a part that continues the table the
    first column is repeated; a column that is wider than the width has a part of its own.
    """
    columns = list(zip(headers, *rows, strict=True))
    sizes = [max(map(len, column)) for column in columns]
    parts: list[list[int]] = [[0]]
    for index in range(1, len(columns)):
        used = sum(sizes[i] + GAP for i in parts[-1])
        if width and used + sizes[index] > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(index)
    lines: list[str] = []
    for part in parts:
        lines += [""] * bool(lines)
        for row in (headers, *rows):
            cells = [row[0].ljust(sizes[0]), *(row[i].rjust(sizes[i]) for i in part[1:])]
            lines.append((" " * GAP).join(cells).rstrip())
    return lines


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns the table in Markdown; its first column is aligned left and the others right."""
    rules = ["---", *["---:"] * (len(headers) - 1)]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (headers, *rows)]
    lines = [cells[0], rules, *cells[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
