"""The files of a map of pages in a version of the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parsieve._core import FormatError
from parsieve.index.log.commit import Part

# The folder of maps in a store. Garbage collection looks for unreferenced files here.
FOLDER = "pages"
# Ids are numbers of 32 bits, and the last one is not used.
MAX_IDS = 2**32 - 1
# The types of the values in a row of `MapPart`.
ROW_TYPES = (int, int, str, int, str, str, int)


@dataclass(frozen=True, slots=True)
class MapPart:
    """The map of successive slices, in one or two files."""

    # The id of its first slice. The files contain only distances from it, so a writer that was too late can use them
    # again with other ids.
    first_id: int
    # How many ids it covers, with or without a map.
    num_slices: int
    # Read completely.
    directory: Part
    # Read by ranges. None if the file of the directory includes the blocks.
    blocks: Part | None = None

    def parts(self) -> list[Part]:
        """Return its files."""
        return [self.directory] if self.blocks is None else [self.directory, self.blocks]

    def covers(self, slice_id: int) -> bool:
        """Return whether an id belongs to this part."""
        return self.first_id <= slice_id < self.first_id + self.num_slices

    def to_row(self) -> list[Any]:
        """Return the values to store in a document."""
        blocks = Part("", 0) if self.blocks is None else self.blocks
        directory = self.directory
        head = [self.first_id, self.num_slices, directory.name, directory.size, directory.digest]
        return [*head, blocks.name, blocks.size]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> MapPart:
        """Return the part that `to_row` stored. The values have the types `ROW_TYPES`."""
        first_id, num_slices, name, size, digest, blocks, blocks_size = row
        if first_id < 0 or num_slices < 0 or first_id + num_slices > MAX_IDS:
            raise FormatError(f"{name}: a map of pages has ids out of range")
        return cls(first_id, num_slices, Part(name, size, digest), Part(blocks, blocks_size) if blocks else None)
