"""Notes for indexes: the filters of a file changed but its rows did not, so an index need not read it again."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from parsieve.io import document
from parsieve.io.index_location import indexes_above
from parsieve.io.store.base import unique
from parsieve.io.store.open import open_store

# The name of their folder in an index, and the kind of their documents.
RENEWALS = "renewals"


def note_same_rows(path: Path, old_token: str, new_token: str) -> None:
    """Record that both tokens denote the same rows of a file. Losing the note only costs a re-read."""
    for folder, index in indexes_above(path):
        relative = path.relative_to(folder).as_posix()
        fields: dict[str, Any] = {"same": [[relative.rpartition("/")[0], relative, old_token, new_token]]}
        # An index has no file whose name is not Unicode.
        with contextlib.suppress(OSError, UnicodeError):
            open_store(str(index)).put(unique(RENEWALS, "note"), document.write(RENEWALS, fields))
