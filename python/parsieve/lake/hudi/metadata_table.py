"""Find out whether the package `hudi` lists a table by Hudi's metadata table, because it does not say so."""

from __future__ import annotations

import re

from parsieve._core import UnsupportedError
from parsieve.lake.hudi.errors import hudi_errors
from parsieve.lake.hudi.timeline import read_timeline
from parsieve.lake.storage.storage import Storage

_FOLDER = ".hoodie/metadata"
# The list of files, and the logs that later instants write, with the instant.
_LIST = re.compile(r"[^.].*_(\d+)\.hfile")
_LOG = re.compile(r"\.[^.].*_(\d+)\.log\.[-_\d]+")


def lists_all_files(storage: Storage) -> bool:
    """Return whether the package can open the metadata table of a table, and its list of files is complete.

    If the package cannot open the metadata table, it lists folders instead. It ignores missing parts of the list.
    """
    from hudi import HudiTableBuilder

    names = storage.names(f"{_FOLDER}/files")
    bases = {match[1] for name in names if (match := _LIST.fullmatch(name))}
    logs = {match[1] for name in names if (match := _LOG.fullmatch(name))}
    address = storage.folder_address(_FOLDER)
    # The package opens the metadata table without the storage options.
    builder = HudiTableBuilder.from_base_uri(address).with_options({"hoodie.table.partition.fields": "partition"})
    try:
        timeline = read_timeline(Storage(address, storage.options))
        with hudi_errors("no metadata table"):
            builder.build().get_timeline()
    except (FileNotFoundError, UnsupportedError):
        return False
    base = max(timeline.completed & bases, default="")
    later = {instant for instant in timeline.completed if timeline.completions.get(instant, instant) > base}
    return base != "" and later <= bases | logs
