"""Where the index of a table is stored."""

from pathlib import Path

from parsieve.io.index_location import next_to_local


def index_of(folder: Path) -> Path:
    """The folder of the index of a plain folder."""
    place = next_to_local(str(folder))
    assert place is not None
    return Path(place)
