"""The kinds of index, by the names that users pass."""

from __future__ import annotations

from parsieve.index.log.commit import TextContent

KINDS = ("auto", "sieve", "bloom", "both", "text", "words")
_CONTENTS: dict[str, TextContent] = {"text": "trigrams", "words": "words"}


def check_kind(kind: str) -> None:
    """Raise `ValueError` for a kind of index that does not exist."""
    if kind not in KINDS:
        listed = ", ".join(f'"{name}"' for name in KINDS[1:])
        raise ValueError(f'the kinds of index are {listed} and "auto", not {kind!r}')


def content_of(kind: str) -> TextContent | None:
    """Return the content of the filters of a text index; None for other kinds of index."""
    return _CONTENTS.get(kind)
