"""Make `index_v1.zip`: a Delta table with an index in format version 1. Run this with parsieve 0.1.

python make_index_v1.py index_v1.zip

The table has four files, gets a fifth, and then loses some rows of one file. The index was built for the first state
and updated for the others, without a compaction. Three columns have a Sieve index, and `name` also has a Bloom index.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import parsieve as ps


def rows(number: int) -> pa.Table:
    """Return the rows of one file: keys that other files also have, a null, and names."""
    ids = [*range(number, 200, 7), number * 1000, None]
    names = [None if id is None else f"user-{id % 50:03}" for id in ids]
    scores = [None if id is None else float("nan") if id % 40 == 1 else id / 4 for id in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": names, "score": scores})


def main(target: Path) -> None:
    """Write the table and its index, and pack both into a ZIP file."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            write_deltalake(folder, rows(number), mode="append")
        table = ps.open_table(folder)
        table.build_index(["id", "name", "score"], "sieve", progress=False)
        table.build_index("name", "bloom", progress=False)
        write_deltalake(folder, rows(4), mode="append")
        ps.open_table(folder).update_index(compact=False, progress=False)
        DeltaTable(folder).delete("id % 7 = 1 or id = 1000")
        ps.open_table(folder).update_index(compact=False, progress=False)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    archive.write(path, path.relative_to(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
