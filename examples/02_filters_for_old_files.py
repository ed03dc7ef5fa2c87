"""Find one customer in many files that were written without Bloom filters: add them, and believe nothing."""

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
    print(f"by minima and maxima: {len(before.files)} of {FILES} files")

    begun = time.perf_counter()
    grown = 0
    for path in sorted(lake.iterdir()):
        report = ps.add_filters(path, columns="customer_id", fpp=0.01)
        grown += report.bytes_after - report.bytes_before
        assert ps.check_filters(path) == [], "every value of the data is in its filter"
    print(f"filters added and proven in {time.perf_counter() - begun:.2f} s; the lake grew by {grown:,} bytes")

    after = ps.open_table(lake).plan(where)
    print(f"with filters: {len(after.files)} of {FILES} files")
    assert len(after.files) < FILES // 4
    assert after.to_arrow().sort_by("day").equals(before.to_arrow().sort_by("day"))
    print(f"{after.to_arrow().num_rows} rows of customer {customer}, the same by both")


if __name__ == "__main__":
    main()
