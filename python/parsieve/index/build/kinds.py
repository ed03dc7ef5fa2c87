"""The kinds of index, by the names that users pass."""

from __future__ import annotations

from collections.abc import Mapping

from parsieve.index.log.commit import TextContent
from parsieve.lake.base import ColumnPath

KINDS = ("auto", "sieve", "bloom", "both", "text", "words")
_CONTENTS: dict[str, TextContent] = {"text": "trigrams", "words": "words"}


def check_kind(kind: str) -> None:
    """Raise `ValueError` for a kind of index that does not exist."""
    if kind not in KINDS:
        listed = ", ".join(f'"{name}"' for name in KINDS[1:])
        raise ValueError(f'kind must be {listed} or "auto", not {kind!r}')


def content_of(kind: str) -> TextContent | None:
    """Return the content of the filters of a text index; None for other kinds of index."""
    return _CONTENTS.get(kind)


def by_content(kinds: Mapping[ColumnPath, str]) -> dict[TextContent, list[ColumnPath]]:
    """Return the columns whose kind is a text index, by the content of their filters."""
    columns: dict[TextContent, list[ColumnPath]] = {}
    for path, kind in kinds.items():
        if (content := content_of(kind)) is not None:
            columns.setdefault(content, []).append(path)
    return columns
