"""Runs a notebook without Jupyter, and keeps its outputs: python tools/run_notebook.py FILE.ipynb

The cells run from top to bottom in one namespace, in the working directory. What they print, the
value of a cell's last expression and matplotlib's figures become its outputs, as in Jupyter.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run_notebook(path: Path, **variables: Any) -> dict[str, Any]:
    """Runs the cells of a notebook and returns it with their outputs; raises what a cell raises.

    variables: replace those that the cell with the tag "parameters" sets.
    """
    import matplotlib

    matplotlib.use("Agg")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(cells, 1):
        cell["execution_count"] = count
        cell["outputs"] = _run_cell("".join(cell["source"]), f"cell {count}", namespace, count)
        if "parameters" in cell["metadata"].get("tags", ()):
            namespace |= variables
    return notebook


def _run_cell(
    source: str, name: str, namespace: dict[str, Any], count: int
) -> list[dict[str, Any]]:
    tree, printed, value = ast.parse(source, name), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": _lines(repr(value))}
        result = {"output_type": "execute_result", "execution_count": count}
        outputs.append(result | {"metadata": {}, "data": data})
    return [*outputs, *_figures()]


def _figures() -> list[dict[str, Any]]:
    """Returns the open figures of matplotlib as outputs, and closes them."""
    from matplotlib import pyplot

    outputs = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=80, bbox_inches="tight")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    executed = run_notebook(file)
    file.write_text(json.dumps(executed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
