"""Keep an index up to date with Dagster: an asset that runs after the table was written.

TABLE=orders dagster dev -f dagster_assets.py
"""

import os

import dagster as dg

import parsieve as ps

COLUMN = "order_id"


@dg.asset
def orders_index() -> dg.MaterializeResult:
    """The index of the table. Dagster shows the figures of each run, and fails the run if an error is raised."""
    table = ps.open_table(os.environ["TABLE"])
    if COLUMN not in table.index_kinds():
        built = table.build_index(COLUMN, kind="sieve", progress=False)
        return dg.MaterializeResult(metadata={"files_read": built.files, "left_out": len(built.left_out)})
    updated = table.update_index(progress=False)
    return dg.MaterializeResult(metadata={"files_read": updated.files_read, "left_out": len(updated.left_out)})


@dg.asset_check(asset=orders_index)
def covers_all_files() -> dg.AssetCheckResult:
    """Check that no file is read in doubt."""
    plan = ps.open_table(os.environ["TABLE"]).plan(f"{COLUMN} = -1")
    doubts = sum(bool(keep.doubt) for keep in plan.kept)
    return dg.AssetCheckResult(passed=doubts == 0, metadata={"files_in_doubt": doubts})


definitions = dg.Definitions(assets=[orders_index], asset_checks=[covers_all_files])
