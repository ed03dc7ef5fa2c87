"""Docstrings for the reference: those of the compiled module are taken from it, and examples become blocks of code."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """What mkdocstrings asks for every object that it finds."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Mend the docstring of one object."""
        if obj.docstring is None and obj.path.startswith("parsieve._core."):
            # Its stubs have types alone; the words are in the Rust sources.
            said = _of_the_compiled(obj.path)
            obj.docstring = griffe.Docstring(said, parent=obj) if said else None
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def _of_the_compiled(path: str) -> str | None:
    name = path.rpartition(".")[2]
    if name.startswith("__"):
        # Python's own sentences about these say nothing.
        return "The arguments of the class." if name == "__new__" else None
    found: Any = importlib.import_module("parsieve._core")
    for name in path.split(".")[2:]:
        found = getattr(found, name, None)
    return inspect.getdoc(found) if found is not None and not isinstance(found, str | int) else None


def fenced(text: str) -> str:
    """Paragraphs that begin with a prompt, as blocks of code under the heading that ends a list of arguments."""
    paragraphs = text.split("\n\n")
    for at, paragraph in enumerate(paragraphs):
        if paragraph.lstrip().startswith(">>>"):
            lines = "\n".join(f"    {line}" for line in paragraph.splitlines())
            paragraphs[at] = f"Examples:\n{lines}"
    return "\n\n".join(paragraphs)
