"""Journals in format 1, which parsieve 0.1 wrote. They have one checksum for all appended bytes.

parsieve 0.1 appended to the file without extending it first. So after a crash, such a file may have any length between
the old and the new one, and a part of the appended bytes cannot be recognized.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from parsieve.io import fd as descriptors
from parsieve.io.in_place import parquet
from parsieve.io.in_place.journal import Wipe
from parsieve.io.in_place.state import Finding, State

MAGIC = b"parsieve journal 1\n"


class FirstJournal(NamedTuple):
    """The content of a journal in format 1."""

    inode: int
    old_length: int
    # The old footer with its length and the magic number.
    ending: bytes
    new_length: int
    # The CRC-32 of the appended bytes.
    checksum: int
    wipe: list[Wipe]

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> FirstJournal:
        """Return the journal with these values of its JSON object."""
        wipe = [Wipe(start, end, b"") for start, end in values["wipe"]]
        footer = bytes.fromhex(values["footer"])
        return cls(values["inode"], values["old_length"], footer, values["new_length"], values["checksum"], wipe)


def examine_first(fd: int, journal: FirstJournal) -> Finding:
    """Return the state of a file that has a journal in format 1."""
    size = descriptors.size(fd)
    is_same_file = os.fstat(fd).st_ino == journal.inode
    start = journal.old_length - len(journal.ending)
    has_ending = descriptors.read_range(fd, start, journal.old_length) == journal.ending
    if size == journal.new_length and descriptors.checksum(fd, journal.old_length, size) == journal.checksum:
        # The journal has no checksums of the ranges to wipe, so a copy may have other bytes there.
        return Finding(State.NEW if is_same_file or not journal.wipe else State.UNKNOWN)
    if size == journal.old_length and has_ending:
        return Finding(State.OLD)
    if parquet.is_complete(fd):
        # After a power cut, the new footer may be on disk although other appended bytes are missing.
        may_be_ours = size == journal.new_length and (has_ending or is_same_file)
        return Finding(State.UNKNOWN if may_be_ours else State.OTHER)
    is_half = is_same_file and has_ending and journal.old_length < size <= journal.new_length
    return Finding(State.HALF if is_half else State.UNKNOWN)
