"""The state of a file with a journal: which bytes of the change it has, or whether it is another file.

A change first extends the file with zeros, and writes the appended bytes only when its new length is on disk. So a file
of any other length is not a file that the change left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from parsieve.io import fd as descriptors
from parsieve.io.fd import Range
from parsieve.io.in_place import parquet
from parsieve.io.in_place.journal import BLOCK, Journal, Wipe
from parsieve.io.in_place.sectors import read_with_checksums, split_range

# A sector proves that a file is the one that the change wrote to, if it has this many bytes. The last bytes of a file
# prove nothing, because all Parquet files end with the same bytes.
PROOF = 64


class State(Enum):
    """The state of a file with a journal."""

    # The old file, unchanged.
    OLD = "old"
    # The old file, and a part of the appended bytes. Truncating the file restores the old one.
    HALF = "half"
    # The complete new file, in which some ranges may not be wiped yet.
    NEW = "new"
    # A complete Parquet file of another program, which has replaced the file of the journal.
    OTHER = "other"
    # None of these is certain.
    UNKNOWN = "unknown"


class Finding(NamedTuple):
    """The state of a file, and the sectors of the old file that a torn write has lost."""

    state: State
    lost: Sequence[Range] = ()


def examine(fd: int, journal: Journal) -> Finding:
    """Return the state of a file that has a journal in format 2."""
    size = descriptors.size(fd)
    if size == journal.old_length:
        return _examine_old_length(fd, journal)
    if size == journal.new_length:
        return _examine_new_length(fd, journal)
    if journal.old_length < size < journal.new_length and _is_extended(fd, journal, size):
        return Finding(State.HALF)
    return Finding(State.OTHER if parquet.is_complete(fd) else State.UNKNOWN)


def _examine_old_length(fd: int, journal: Journal) -> Finding:
    lost = _lost_sectors(fd, journal, ())
    if lost == []:
        return Finding(State.OLD)
    is_complete = parquet.is_complete(fd)
    if lost is None:
        return Finding(State.OTHER if is_complete else State.UNKNOWN)
    # Truncating the file also writes its last block, so a crash can lose sectors of it. But a complete file may be a
    # newer one that has zeros in these sectors.
    start = journal.old_length - len(journal.ending)
    is_proven = any(
        last - first >= PROOF and any(journal.ending[first - start : last - start])
        for first, last in split_range(start, journal.old_length)
        if (first, last) not in lost
    )
    return Finding(State.OLD, lost) if is_proven and not is_complete else Finding(State.UNKNOWN)


def _examine_new_length(fd: int, journal: Journal) -> Finding:
    size = journal.new_length
    if descriptors.checksum(fd, journal.old_length, size) == journal.checksum:
        lost = _lost_sectors(fd, journal, journal.wipe)
        may_wipe = lost is not None and all(_may_wipe(fd, wipe) for wipe in journal.wipe)
        return Finding(State.NEW, lost or ()) if may_wipe else Finding(State.UNKNOWN)
    proofs = torn = foreign = 0
    for sector, is_ours in read_with_checksums(fd, journal.old_length, size, journal.appended):
        if is_ours:
            proofs += len(sector) >= PROOF and any(sector)
        elif any(sector) and not sector[-1]:
            # If a process stops within a sector, zeros follow its bytes.
            torn += 1
        else:
            foreign += any(sector)
    # Bytes are appended in order, so a process stops within one sector.
    if not foreign and torn <= 1:
        lost = _lost_sectors(fd, journal, ())
        if lost is not None and (not lost or proofs):
            return Finding(State.HALF, lost)
    return Finding(State.OTHER if not proofs and parquet.is_complete(fd) else State.UNKNOWN)


def _lost_sectors(fd: int, journal: Journal, wipe: Sequence[Wipe]) -> list[Range] | None:
    """Return the sectors at the end of the old file that a torn write has lost, or None if other bytes differ.

    A torn write leaves zeros in sectors of the block to which the change appends. Bytes in the ranges `wipe` may also
    be zeros.
    """
    start, end = journal.old_length - len(journal.ending), journal.old_length
    found = descriptors.read_range(fd, start, end)
    if len(found) != len(journal.ending):
        return None
    ranges = [(range_.start, range_.end) for range_ in wipe]
    expected = descriptors.fill_with_zeros(journal.ending, start, ranges)
    compared = descriptors.fill_with_zeros(found, start, ranges)
    block = end - end % BLOCK
    lost = []
    for first, last in split_range(start, end):
        place = slice(first - start, last - start)
        if compared[place] != expected[place]:
            if first < block or any(found[place]):
                return None
            lost.append((first, last))
    return lost


def _is_extended(fd: int, journal: Journal, size: int) -> bool:
    """Return whether the file is the old one with zeros after it. Some filesystems extend a file step by step."""
    if _lost_sectors(fd, journal, ()) != []:
        return False
    return not any(any(data) for data in descriptors.read_chunks(fd, journal.old_length, size))


def _may_wipe(fd: int, wipe: Wipe) -> bool:
    """Return whether each sector of a range has its old bytes or was wiped."""
    sectors = read_with_checksums(fd, wipe.start, wipe.end, wipe.checksums)
    return all(is_old or not any(sector) for sector, is_old in sectors)
