"""Files of a table as one pyarrow dataset, wherever pyarrow's own scan gives exactly the table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.types as pt
from pyarrow import fs

from parsieve.files import REQUESTS_AT_ONCE
from parsieve.lake.rows import foreign


class ScanFile(NamedTuple):
    """A file whose rows are all live."""

    path: str
    constants: Mapping[str, object]
    # The file's own schema, where it is known already.
    physical: pa.Schema | None = None


def dataset_of(files: Sequence[ScanFile], schema: pa.Schema, filesystem: fs.FileSystem) -> pads.Dataset | None:
    """The files as a dataset; None where a file's columns are not those of the table, as its footer says."""
    kind = pads.ParquetFileFormat()
    fragments = [
        kind.make_fragment(file.path, filesystem, partition_expression=_guarantee(file.constants)) for file in files
    ]
    missing = [fragment for fragment, file in zip(fragments, files, strict=True) if file.physical is None]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        # The fragment remembers its footer for the scan.
        list(pool.map(_footer, missing))
    for fragment, file in zip(fragments, files, strict=True):
        if not _as_it_is(file.physical or fragment.physical_schema, schema, file.constants):
            return None
    return pads.FileSystemDataset(fragments, schema, kind, filesystem)


def _footer(fragment: pads.ParquetFileFragment) -> None:
    with foreign(fragment.path):
        fragment.ensure_complete_metadata()


def _guarantee(constants: Mapping[str, object]) -> pc.Expression:
    found = pc.scalar(True)
    for name, value in constants.items():
        one = pc.field(name).is_null() if value is None else pc.field(name) == pc.scalar(value)
        found = found & one
    return found


def without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type that an engine sees: values where a file says dictionary, and everything may be null."""
    if pt.is_dictionary(kind):
        return kind.value_type
    if pt.is_struct(kind):
        return pa.struct([pa.field(one.name, without_dictionaries(one.type)) for one in kind])
    return kind


def _as_it_is(physical: pa.Schema, schema: pa.Schema, constants: Mapping[str, object]) -> bool:
    """Whether pyarrow's scan of a file gives the table's values: same types, and no second reading of a name."""
    if any(name in physical.names for name in constants):
        return False
    held = {one.name: without_dictionaries(one.type) for one in physical}
    folded = {name.casefold() for name in held}
    if len(held) != len(physical) or len(folded) != len(held):
        return False
    for one in schema:
        if one.name not in held:
            if one.name.casefold() in folded:
                return False
        elif not _alike(held[one.name], without_dictionaries(one.type)) or one.type == pa.timestamp("ns"):
            # Nanoseconds without a zone may be INT96, whose overflow pyarrow does not notice.
            return False
    return True


def _alike(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow compares and casts one as the other; it cannot compare views with anything else."""
    return held == wanted or {str(held), str(wanted)} in ({"string", "large_string"}, {"binary", "large_binary"})
