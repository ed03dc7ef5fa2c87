"""Refresh a DuckDB table for the customers that changed, without reading the whole lake.

duckdb_model.py DATABASE TABLE CUSTOMER...
"""

import sys
from collections.abc import Sequence

import duckdb
import pyarrow as pa

import parsieve as ps

MODEL = """
INSERT INTO totals
SELECT customer, count(*) AS orders, sum(amount) AS amount FROM changed GROUP BY customer
"""


def refresh(con: duckdb.DuckDBPyConnection, orders: ps.Table, customers: Sequence[int]) -> ps.Plan:
    """Compute the totals of some customers again. Returns the plan of the read."""
    con.execute("CREATE TABLE IF NOT EXISTS totals (customer BIGINT PRIMARY KEY, orders BIGINT, amount DOUBLE)")
    plan = orders.plan(keys={"customer": pa.array(customers, pa.int64())})
    con.register("changed", plan.to_arrow(columns=["customer", "amount"]))
    # Readers of the database see either the old totals or the new ones.
    con.begin()
    try:
        # A customer whose last order is gone has no row in `changed`.
        con.execute("DELETE FROM totals WHERE list_contains(?, customer)", [list(customers)])
        con.execute(MODEL)
        con.commit()
    except BaseException:
        con.rollback()
        raise
    finally:
        con.unregister("changed")
    return plan


def main(database: str, source: str, *customers: str) -> None:
    with duckdb.connect(database) as con:
        plan = refresh(con, ps.open_table(source), [int(customer) for customer in customers])
        print(f"read {len(plan.files)} of {len(plan.files) + len(plan.skipped)} files")


if __name__ == "__main__":
    main(*sys.argv[1:])
