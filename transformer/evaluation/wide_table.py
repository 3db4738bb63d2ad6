"""A table as text that fits a terminal, where one that is too wide continues below, or Markdown."""

from collections.abc import Sequence

Table = Sequence[Sequence[str]]  # rows of cells, headers first
GAP = 2  # spaces between two columns


def fitted_table(
    table: Table, width: int | None = None, *, num_texts: int, num_labels: int = 1
) -> list[str]:
    """Returns the lines of a table, of at most `width` characters; None: of any width.

    The first `num_texts` columns are aligned left and the others right. The first `num_labels` are
    repeated in each part of a table that is too wide.
    """
    labels = list(range(num_labels))
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    parts: list[list[int]] = [labels]
    for index in range(num_labels, len(sizes)):
        used = sum(sizes[i] + GAP for i in parts[-1])
        if width and used + sizes[index] > width and len(parts[-1]) > num_labels:
            parts.append(labels)
        parts[-1] = [*parts[-1], index]
    lines: list[str] = []
    for part in parts:
        lines += [""] * bool(lines)
        for row in table:
            cells = [
                row[i].ljust(sizes[i]) if i < num_texts else row[i].rjust(sizes[i]) for i in part
            ]
            lines.append((" " * GAP).join(cells).rstrip())
    return lines


def markdown_table(table: Table, *, num_texts: int) -> str:
    """Returns the table in Markdown; the first `num_texts` columns are aligned left."""
    head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in table]
    rules = ["---" if index < num_texts else "---:" for index in range(len(head))]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *rows))
