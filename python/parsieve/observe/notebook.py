"""Show objects in notebooks."""

from __future__ import annotations

from importlib import import_module

# The module that draws them. It builds on tables and plans, so it is imported by name.
_CARDS = "parsieve.report.cards"


def html_of(thing: object) -> str | None:
    """Return an object as HTML, or None if that fails, so that the notebook shows its text instead."""
    try:
        html: str = import_module(_CARDS).card_of(thing)
    except Exception:  # A notebook would show the error instead of the object.
        return None
    return html
