"""Change local files in place, and undo or finish changes that a crash interrupted."""

from parsieve.io.in_place.change import InPlaceChange, recover
from parsieve.io.in_place.journal import has_journal, journal_path

__all__ = ["InPlaceChange", "has_journal", "journal_path", "recover"]
