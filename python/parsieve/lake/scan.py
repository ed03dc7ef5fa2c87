"""Files of a table as one pyarrow dataset, wherever pyarrow's own scan gives exactly the table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.types as pt
from pyarrow import fs

from parsieve._core import UnsupportedError
from parsieve.files import REQUESTS_AT_ONCE
from parsieve.lake.leaves import BY_NAME, Matching
from parsieve.lake.rows import foreign
from parsieve.lake.streams import matching, streamed


class ScanFile(NamedTuple):
    """A file whose rows are all live."""

    path: str
    constants: Mapping[str, object]
    # The file's own schema, where it is known already.
    physical: pa.Schema | None = None
    matching: Matching = BY_NAME


def dataset_of(files: Sequence[ScanFile], schema: pa.Schema, filesystem: fs.FileSystem) -> pads.Dataset | None:
    """The files as a dataset; None where a file's columns are not those of the table, as its footer says."""
    if any(value != value for file in files for value in file.constants.values()):
        # What pyarrow concludes from "equals NaN" is nothing good.
        return None
    kind = pads.ParquetFileFormat()
    fragments = [
        kind.make_fragment(file.path, filesystem, partition_expression=_guarantee(file.constants)) for file in files
    ]
    missing = [fragment for fragment, file in zip(fragments, files, strict=True) if file.physical is None]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        # The fragment remembers its footer for the scan.
        list(pool.map(_footer, missing))
    for fragment, file in zip(fragments, files, strict=True):
        if not _as_it_is(file.physical or fragment.physical_schema, schema, file):
            return None
    return pads.FileSystemDataset(fragments, schema, kind, filesystem)


def scanned(dataset: pads.Dataset, columns: Sequence[str] | None, filter: Any) -> pa.RecordBatchReader:
    """The rows of a dataset that match, NaN among them.

    pyarrow leaves row groups out by statistics, which know nothing of NaN: under `!=`, NOT and `isin` it loses rows.
    """
    names = list(dataset.schema.names if columns is None else columns)
    if filter is None or not _names_floats(dataset.schema, str(filter)):
        return streamed(dataset.scanner(columns=names, filter=filter))
    batches = dataset.scanner().to_batches()
    return matching(batches, dataset.schema, names, filter)


def _names_floats(schema: pa.Schema, filter: str) -> bool:
    """Whether a filter, as it prints, may name a column of floats; a path by numbers may name any."""

    def holds(kind: pa.DataType) -> bool:
        if pt.is_nested(kind):
            return any(holds(kind.field(number).type) for number in range(kind.num_fields))
        return bool(pt.is_floating(kind))

    return any(holds(one.type) and (one.name in filter or "FieldPath" in filter) for one in schema)


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


def _as_it_is(physical: pa.Schema, schema: pa.Schema, file: ScanFile) -> bool:
    """Whether pyarrow's scan of a file, which goes by names, gives the table's values."""
    held = list(physical)
    if any(name in physical.names for name in file.constants) or len({one.name.casefold() for one in held}) != len(
        held
    ):
        return False
    for one in schema:
        if one.name in file.constants:
            continue
        try:
            number = file.matching.find(one, held)
        except UnsupportedError:
            return False
        if number is None:
            # By its name there must be nothing either, and pyarrow knows no other default than null.
            if one.name in physical.names or file.matching.absent(one, 1).null_count == 0:
                return False
        elif held[number].name != one.name or not _same(held[number].type, one.type, file.matching):
            return False
    return True


def _same(held: pa.DataType, wanted: pa.DataType, matching: Matching) -> bool:
    """Whether pyarrow reads one as the other without a change of any value, nested fields by their order."""
    if pt.is_struct(held) and pt.is_struct(wanted):
        children, names = list(held), [one.name for one in wanted]
        try:
            places = [matching.find(one, children) for one in wanted]
        except UnsupportedError:
            return False
        return (
            [one.name for one in children] == names
            and places == list(range(len(names)))
            and all(_same(mine.type, other.type, matching) for mine, other in zip(children, wanted, strict=True))
        )
    if pt.is_list(held) and pt.is_list(wanted):
        return _same(held.value_type, wanted.value_type, matching)
    if pt.is_map(held) and pt.is_map(wanted):
        return _same(held.key_type, wanted.key_type, matching) and _same(held.item_type, wanted.item_type, matching)
    if pt.is_nested(held) and matching is not BY_NAME:
        return False
    # Nanoseconds without a zone may be INT96, whose overflow pyarrow does not notice.
    return wanted != pa.timestamp("ns") and _alike(without_dictionaries(held), without_dictionaries(wanted))


def _alike(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow compares and casts one as the other; it cannot compare views with anything else."""
    return held == wanted or {str(held), str(wanted)} in ({"string", "large_string"}, {"binary", "large_binary"})
