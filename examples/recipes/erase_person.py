"""Erase a person from a Delta table and its index, and prove that nothing is left.

    erase_person.py TABLE COLUMN KEY

Make sure that no job reads old versions of the table, because their files are removed.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import duckdb
from deltalake import DeltaTable

import parsieve as ps


class Erasure(NamedTuple):
    """The result of an erasure. It is complete if `rows_left` is 0 and `traces` is empty."""

    files: list[str]
    rows: int
    rows_left: int
    # Files whose bytes contain the key.
    traces: list[str]


def erase(folder: str, column: str, key: str) -> Erasure:
    """Erase all rows with a key."""
    table = ps.open_table(folder)
    before = table.lookup(column, [key])
    delta = DeltaTable(folder)
    # Delta's log records this condition, so the old entries of the log have to go, too.
    quoted = key.replace("'", "''")
    delta.delete(f"\"{column}\" = '{quoted}'")
    delta.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    forget_history(folder)
    table = ps.open_table(folder)
    if column in table.index_kinds():
        table.update_index(progress=False)
        table.compact_index(column, purge=True, progress=False)
        table.expire_index(older_than=0)
    after = table.lookup(column, [key])
    left = len(after) + rows_in_files(folder, column, key)
    return Erasure(before.plan.files, len(before), left, traces(folder, key))


def forget_history(folder: str) -> None:
    """Remove the entries of the log that earlier versions need, and keep the setting for how long they stay."""
    delta = DeltaTable(folder)
    setting = "delta.logRetentionDuration"
    before = delta.metadata().configuration.get(setting, "interval 30 days")
    delta.alter.set_table_properties({setting: "interval 0 days"})
    delta = DeltaTable(folder)
    delta.create_checkpoint()
    delta.cleanup_metadata()
    delta.alter.set_table_properties({setting: before})


def rows_in_files(folder: str, column: str, key: str) -> int:
    """Count the rows with the key in all Parquet files of the folder, also if the table no longer uses a file."""
    query = f'SELECT count(*) FROM read_parquet(?, union_by_name = true) WHERE "{column}" = ?'
    [row] = duckdb.execute(query, [[str(path) for path in data_files(folder)], key]).fetchall()
    return int(row[0])


def data_files(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*.parquet") if "_delta_log" not in path.parts]


def traces(folder: str, key: str) -> list[str]:
    """Return the files whose bytes contain the key: of the table, its log and its index."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    return [str(path) for path in files if key.encode() in path.read_bytes()]


def main(folder: str, column: str, key: str) -> int:
    erased = erase(folder, column, key)
    print(f"erased {erased.rows} rows from {len(erased.files)} files; {erased.rows_left} rows left")
    for trace in erased.traces:
        print(f"still contains the key: {trace}")
    return 1 if erased.rows_left or erased.traces else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
