"""Run notebooks without Jupyter.

`python tests/python/support/notebooks.py examples/*.ipynb` runs the notebooks and stores their output.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

Output = dict[str, Any]


def run(path: Path) -> list[tuple[dict[str, Any], list[Output]]]:
    """Run the code cells in the current folder, and return each cell with its output."""
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [
        (cell, _run(f"{path.name}, cell {at}", "".join(cell["source"]), namespace)) for at, cell in enumerate(cells)
    ]


def _run(name: str, source: str, namespace: dict[str, Any]) -> list[Output]:
    """Run a cell. Its output is the text that it prints, and the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        value = (
            eval(compile(ast.Expression(last.value), name, "eval"), namespace) if isinstance(last, ast.Expr) else None
        )
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        for method, kind in (("_repr_svg_", "image/svg+xml"), ("_repr_html_", "text/html")):
            if hasattr(value, method):
                data = {kind: _lines(getattr(value, method)())} | data
        outputs.append({"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def store(path: Path) -> None:
    """Run a notebook in an empty folder, and store the output of its cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    previous = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = iter(cell_outputs for _, cell_outputs in run(path))
        finally:
            os.chdir(previous)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = next(outputs)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        store(Path(name).absolute())
