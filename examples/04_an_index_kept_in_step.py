"""Change a table that has an index: the stale index costs time, never correctness, until an update."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps


def write(path: Path, ids: list[int]) -> None:
    pq.write_table(pa.table({"id": ids}), path)


def show(table: ps.Table, state: str) -> None:
    plan = table.plan("id = 42")
    doubts = sum(bool(keep.doubt) for keep in plan.kept)
    print(
        f"{state:<24} reads {len(plan.files)} of 10 files, {doubts} in doubt, and finds {plan.to_arrow().num_rows} rows"
    )


def main() -> None:
    folder = Path("items")
    folder.mkdir()
    for part in range(10):
        write(folder / f"{part}.parquet", list(range(part, 1000, 10)))
    table = ps.open_table(folder)
    show(table, "no index")

    table.build_index("id", progress=False)
    show(table, "indexed")

    write(folder / "7.parquet", [42, 7, 997])
    show(table, "a file was replaced")

    table.update_index(progress=False)
    show(table, "updated")

    table.compact_index()
    assert table.verify_index() == [], "the index agrees with the files"
    show(table, "compacted and verified")
    plan = table.plan("id = 42")
    assert [Path(file).name for file in plan.files] == ["2.parquet", "7.parquet"]

    table.drop_index()
    show(table, "dropped")


if __name__ == "__main__":
    main()
