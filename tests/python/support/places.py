"""Find the index of a table."""

from pathlib import Path

from parsieve.io.index_location import next_to_local


def index_of(folder: Path) -> Path:
    """Return the folder that holds the index of a plain folder."""
    location = next_to_local(str(folder))
    assert location is not None
    return Path(location)
