"""Compare the rows of Delta and Iceberg tables with the rows that deltalake and pyiceberg read.

The tables have partitions, deletion vectors, position deletes, renamed, dropped and added columns, and promoted types.
"""

from __future__ import annotations

import json
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
from deltalake import ColumnProperties, DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

import parsieve as ps
from support.delta_vectors import z85
from support.formats import catalog_at
from support.rows.cases import EITHER, EQUAL, MISMATCH, Outcome, logged_reads, projection_of, readers_used
from support.rows.conditions import paths_of, random_condition, tests_of, truths
from support.rows.languages import LANGUAGES, UnsayableError
from support.rows.reading import difference, take
from support.rows.tables import random_rows
from support.rows.values import family

UID = "uid"
# Types that both formats have. In lists and structs, too.
TYPES = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.bool_(), pa.date32()]
TYPES += [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.decimal128(9, 2), pa.decimal128(20, 3)]
TYPES += [pa.list_(pa.field("element", pa.int64())), pa.struct([("x", pa.int64()), ("y", pa.string())])]


def _rows(schema: pa.Schema, random_: random.Random, count: int, first: int) -> pa.Table:
    table = random_rows(schema, random_, count)
    table = table.set_column(0, schema.field(0), pa.array(range(first, first + count), pa.int64()))
    if "part" in schema.names:
        place = schema.get_field_index("part")
        parts = pa.array([random_.choice((1, 2, None)) for _ in range(count)], pa.int32())
        table = table.set_column(place, schema.field(place), parts)
    return table


def _schema(random_: random.Random) -> pa.Schema:
    fields = [pa.field(UID, pa.int64()), pa.field("part", pa.int32())]
    fields += [pa.field(f"c{number}", random_.choice(TYPES)) for number in range(random_.randrange(1, 6))]
    return pa.schema(fields)


# Delta


def delta_table(folder: Path, random_: random.Random) -> tuple[Any, pa.Table]:
    """Write a Delta table with arrow-rs, delete rows by deletion vectors, and return it with its live rows."""
    schema = _schema(random_)
    options: dict[str, Any] = {"partition_by": ["part"]} if random_.random() < 0.5 else {}
    options["configuration"] = {"delta.enableDeletionVectors": "true"}
    for number in range(random_.randrange(1, 4)):
        column = ColumnProperties(
            dictionary_enabled=random_.random() < 0.5, statistics_enabled=random_.choice(("NONE", "CHUNK", "PAGE"))
        )
        write_deltalake(
            str(folder),
            _rows(schema, random_, random_.choice((1, 50, 300)), number * 1000),
            mode="append",
            writer_properties=WriterProperties(
                data_page_size_limit=random_.choice((100, 5000, None)),
                data_page_row_count_limit=random_.choice((5, 100, None)),
                write_batch_size=random_.choice((5, 1024)),
                max_row_group_size=random_.choice((20, 1000)),
                compression=random_.choice(("UNCOMPRESSED", "SNAPPY", "ZSTD", "LZ4_RAW")),
                default_column_properties=column,
            ),
            **options,
        )
        options.pop("configuration", None)
    _delete_by_vectors(folder, random_)
    table = DeltaTable(str(folder))
    return str(folder), pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))


def _delete_by_vectors(folder: Path, random_: random.Random) -> None:
    """Commit a version in which some files have deletion vectors."""
    log = folder / "_delta_log"
    names = sorted(log.glob("*.json"))
    adds = [
        action["add"] for name in names for action in map(json.loads, name.read_text().splitlines()) if "add" in action
    ]
    actions: list[dict[str, Any]] = []
    for add in adds:
        if random_.random() < 0.3:
            continue
        count = json.loads(add["stats"])["numRecords"]
        share = random_.choice((0.02, 0.5, 1.0))
        bitmap = pyroaring.BitMap64([row for row in range(count) if random_.random() < share])
        data = (1681511377).to_bytes(4, "little") + bitmap.serialize()
        vector = {"storageType": "i", "pathOrInlineDv": z85(data + b"\0" * (-len(data) % 4)), "sizeInBytes": len(data)}
        actions.append({"remove": {"path": add["path"], "dataChange": True}})
        actions.append({"add": add | {"deletionVector": vector | {"cardinality": len(bitmap)}}})
    if actions:
        (log / f"{len(names):020}.json").write_text("\n".join(map(json.dumps, actions)))


# Iceberg


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def iceberg_table(folder: Path, random_: random.Random) -> tuple[Any, pa.Table]:
    """Write an Iceberg table, change its columns between appends, delete rows by position, and return its live rows."""
    folder.mkdir(parents=True)
    schema = _schema(random_)
    with catalog_at(folder) as catalog:
        table = catalog.create_table("n.t", schema, properties={"format-version": "2", **_iceberg_settings(random_)})
        if random_.random() < 0.5:
            with table.update_spec() as spec:
                spec.add_field("part", IdentityTransform())
        for number in range(random_.randrange(1, 4)):
            if number:
                _evolve(table, random_, number)
            now = table.schema().as_arrow()
            plain = pa.schema([pa.field(field.name, _small(field.type)) for field in now])
            table.append(_rows(plain, random_, random_.choice((1, 50, 300)), number * 1000))
        metadata = _delete_by_position(table, random_)
        reopened = _static(catalog, metadata)
        return metadata, reopened.scan().to_arrow()


def _iceberg_settings(random_: random.Random) -> dict[str, str]:
    return {
        "write.parquet.row-group-limit": random_.choice(("20", "1000")),
        "write.parquet.page-row-limit": random_.choice(("5", "100")),
        "write.parquet.compression-codec": random_.choice(("zstd", "snappy", "uncompressed")),
    }


def _small(kind: pa.DataType) -> pa.DataType:
    """Return a type of pyiceberg's schema without its large variant."""
    for large, small in ((pa.large_string(), pa.string()), (pa.large_binary(), pa.binary())):
        if kind == large:
            return small
    return kind


def _evolve(table: Any, random_: random.Random, number: int) -> None:
    names = [field.name for field in table.schema().fields if field.name not in (UID, "part")]
    form = random_.choice(("rename", "add", "drop", "swap", "promote"))
    if form == "rename" and names:
        with table.update_schema() as update:
            update.rename_column(random_.choice(names), f"renamed{number}")
    elif form == "swap" and len(names) > 1:
        # The names of two columns change places, so that only IDs identify them.
        left, right = random_.sample(names, 2)
        for before, after in ((left, "between"), (right, left), ("between", right)):
            with table.update_schema() as update:
                update.rename_column(before, after)
    elif form == "drop" and len(names) > 1:
        dropped = random_.choice(names)
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(dropped)
        with table.update_schema() as update:
            # A new column of the same name is another column.
            update.add_column(dropped, StringType())
    elif form == "promote":
        with table.update_schema() as update:
            for field in table.schema().fields:
                if str(field.field_type) == "int" and field.name != "part":
                    update.update_column(field.name, LongType())
    else:
        with table.update_schema() as update:
            update.add_column(f"new{number}", LongType())


def _delete_by_position(table: Any, random_: random.Random) -> str:
    """Commit a snapshot with position deletes, and return its metadata file."""
    current, io = table.current_snapshot(), table.io
    sequence = (current.sequence_number or 0) + 1
    manifests = current.manifests(io)
    files = [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(io)]
    house = Path(table.location().removeprefix("file://"))
    paths, positions = [], []
    for file in sorted(files, key=lambda file: file.file_path):
        share = random_.choice((0, 0.02, 0.5, 1.0))
        chosen = [row for row in range(file.record_count) if random_.random() < share]
        paths += [file.file_path] * len(chosen)
        positions += chosen
    if not paths:
        return str(table.metadata_location).removeprefix("file://")
    ids = {"file_path": "2147483546", "pos": "2147483545"}
    fields = [("file_path", pa.string()), ("pos", pa.int64())]
    rows = pa.table(
        [paths, positions],
        schema=pa.schema([pa.field(name, kind, False, {"PARQUET:field_id": ids[name]}) for name, kind in fields]),
    )
    by_partition: dict[Any, list[int]] = {}
    partitions = {file.file_path: file.partition for file in files}
    for row, path in enumerate(paths):
        by_partition.setdefault(repr(partitions[path]), []).append(row)
    listing = f"{house}/metadata/snap-7.avro"
    manifest_path = f"{house}/metadata/deletes.avro"
    with _Deletes(table.spec(), table.schema(), io.new_output(manifest_path), 7, "null") as writer:
        for number, chosen in enumerate(by_partition.values()):
            place = house / "data" / f"deletes-{number}.parquet"
            place.parent.mkdir(exist_ok=True)
            pq.write_table(take(rows, chosen), place)
            file = DataFile.from_args(
                content=DataFileContent.POSITION_DELETES,
                file_path=place.as_uri(),
                file_format=FileFormat.PARQUET,
                partition=partitions[paths[chosen[0]]],
                record_count=len(chosen),
                file_size_in_bytes=place.stat().st_size,
            )
            writer.add_entry(ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=7, data_file=file))
    with write_manifest_list(2, io.new_output(listing), 7, current.snapshot_id, sequence, "null") as lists:
        lists.add_manifests([writer.to_manifest_file(), *manifests])
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    metadata["snapshots"].append(
        dict(metadata["snapshots"][-1]) | {"snapshot-id": 7, "sequence-number": sequence, "manifest-list": listing}
    )
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = 7
    metadata["last-sequence-number"] = sequence
    place = house / "metadata" / "00099-x.metadata.json"
    place.write_text(json.dumps(metadata))
    return str(place)


def _static(catalog: SqlCatalog, metadata: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(metadata)


# Plans

Make = Callable[[Path, random.Random], tuple[Any, pa.Table]]
LAKES: dict[str, Make] = {"delta": delta_table, "iceberg": iceberg_table}


def run_lake(seed: str, root: Path, count: int, format_: str) -> list[Outcome]:
    """Write a table, and compare the rows of some plans. Both are in the order of the column `uid`."""
    random_ = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source, live = LAKES[format_](root / "table", random_)
        table = ps.open_table(source)
        full = live.select(table.schema.names).cast(table.schema)
        index = random_.choice(("none", "file", "row_group", "rows"))
        if index != "none":
            names = [path for path, _ in paths_of(table.schema)]
            table.build_index(random_.sample(names, min(2, len(names))), "sieve", unit=index, progress=False)
    return [_check(table, full, random_, format_, index) for _ in range(count)]


def _check(table: ps.Table, full: pa.Table, random_: random.Random, format_: str, index: str) -> Outcome:
    language = random_.choice([language for language in LANGUAGES if language.name in ("sql", "tuples", "keys")])
    leaves = [leaf for leaf in paths_of(full.schema) if language.accepts(leaf[1])]
    condition = random_condition(random_, full, leaves, language.ops, language.shape)
    assert condition is not None, "every table has a column of numbers"
    form, columns = projection_of(random_, full.schema, condition)
    names = list(dict.fromkeys([UID, *(full.schema.names if columns is None else columns)]))
    tests = list(tests_of(condition))
    types = dict(paths_of(full.schema))
    outcome = Outcome(
        EQUAL,
        format_,
        language.name,
        tuple(sorted({test.op for test in tests})),
        tuple(sorted({family(types[test.path]) for test in tests})),
        form,
        index,
    )
    try:
        request = language.render(condition, full.schema, random_)
    except UnsayableError:
        outcome.result = EITHER
        return outcome
    about = f"{condition}, columns={names}, index {index}"
    try:
        plan = table.plan(**request, row_groups=random_.choice((None, True, False)), on_unknown="error")
        with logged_reads():
            actual = plan.to_arrow(names)
        outcome.readers = tuple(readers_used(plan) or ())
        outcome.num_rows = actual.num_rows
        mask = truths(condition, full, language.rules)
        wanted = take(full.select(names), [row for row, truth in enumerate(mask) if truth is True])
        detail = difference(_by_uid(actual), _by_uid(wanted))
    except Exception:
        detail = traceback.format_exc()
    if detail is not None:
        outcome.result, outcome.detail = MISMATCH, f"{about}\n{detail}"
    return outcome


def _by_uid(table: pa.Table) -> pa.Table:
    numbers = table.column(UID).to_pylist()
    return take(table, sorted(range(len(numbers)), key=numbers.__getitem__))
