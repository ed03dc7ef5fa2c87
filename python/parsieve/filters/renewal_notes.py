"""Notes for indexes: a file got other filters and kept its rows, so an index need not read it again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from parsieve.filters.folder_run import indexes_around
from parsieve.io import document
from parsieve.io.store.base import unique
from parsieve.io.store.open import open_store

# The folder of the notes in an index, and the kind of their documents.
RENEWALS = "renewals"


def note(path: Path, since: str, until: str) -> None:
    """Record that both tokens denote the same rows of a file. Losing the note only costs a re-read."""
    for folder, index in indexes_around(path):
        relative = path.relative_to(folder).as_posix()
        fields: dict[str, Any] = {"same": [[relative.rpartition("/")[0], relative, since, until]]}
        with contextlib.suppress(OSError):
            open_store(str(index)).put(unique(RENEWALS, "note"), document.write(RENEWALS, fields))
