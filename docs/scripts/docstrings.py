"""A griffe extension for the reference: adds docstrings of the compiled module, and turns doctests into code blocks."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe

# A property that is computed once is shown as an attribute, as with `functools.cached_property`.
griffe.stdlib_decorators["parsieve.sharing.cached_property"] = {"cached", "property"}


class Docstrings(griffe.Extension):
    """Fixes the docstring of every object that mkdocstrings collects."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Set or reformat the docstring of one object."""
        if obj.docstring is None and obj.path.startswith("parsieve._core."):
            # The stub file has only types. The docstrings are in the Rust sources.
            text = _compiled_docstring(obj.path)
            obj.docstring = griffe.Docstring(text, parent=obj) if text else None
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def _compiled_docstring(path: str) -> str | None:
    name = path.rpartition(".")[2]
    if name.startswith("__"):
        # Python's own docstrings of special methods are not useful.
        return "The arguments of the class." if name == "__new__" else None
    member: Any = importlib.import_module("parsieve._core")
    for name in path.split(".")[2:]:
        member = getattr(member, name, None)
    return inspect.getdoc(member) if member is not None and not isinstance(member, str | int) else None


def fenced(text: str) -> str:
    """Put paragraphs that begin with a prompt into an "Examples" section, which also ends a list of arguments."""
    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        if paragraph.lstrip().startswith(">>>"):
            lines = "\n".join(f"    {line}" for line in paragraph.splitlines())
            paragraphs[number] = f"Examples:\n{lines}"
    return "\n\n".join(paragraphs)
