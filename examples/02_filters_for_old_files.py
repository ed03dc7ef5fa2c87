"""Add Bloom filters to files that were written without them, check the filters, and find one customer."""

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import parsieve as ps

FILES, ROWS = 40, 10_000
CUSTOMERS = 1_000_000


def main() -> None:
    lake = Path("orders")
    lake.mkdir()
    for day in range(FILES):
        customers = pc.floor(pc.multiply(pc.random(ROWS, initializer=day), float(CUSTOMERS))).cast(pa.int64())
        pq.write_table(
            pa.table({"customer_id": customers, "day": pa.repeat(day, ROWS)}), lake / f"day-{day:02}.parquet"
        )
    customer = pq.read_table(lake / "day-07.parquet")["customer_id"][0].as_py()
    where = f"customer_id = {customer}"

    before = ps.open_table(lake).plan(where)
    print(f"with min/max statistics: {len(before.files)} of {FILES} files")

    start = time.perf_counter()
    added_bytes = 0
    for path in sorted(lake.iterdir()):
        report = ps.add_filters(path, columns="customer_id", fpp=0.01)
        added_bytes += report.bytes_after - report.bytes_before
        assert ps.check_filters(path) == [], "the filter contains every value of the file"
    seconds = time.perf_counter() - start
    print(f"filters added and checked in {seconds:.2f} s; the lake grew by {added_bytes:,} bytes")

    after = ps.open_table(lake).plan(where)
    print(f"with filters: {len(after.files)} of {FILES} files")
    assert len(after.files) < FILES // 4
    assert after.to_arrow().sort_by("day").equals(before.to_arrow().sort_by("day"))
    print(f"{after.to_arrow().num_rows} rows of customer {customer}, the same with and without filters")


if __name__ == "__main__":
    main()
