"""Compare with numpy times. Times in steps of several units skip nothing, because pyarrow converts them wrongly."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

# 125 seconds, which pyarrow converts to 5 seconds.
STEPS: Any = np.array([5], "M8[25s]")


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    for number, seconds in enumerate((5, 125)):
        times = pa.array([seconds * 1000], pa.timestamp("ms"))
        days = pa.array([number * 7], pa.int32()).cast(pa.date32())
        pq.write_table(pa.table({"t": times, "d": days}), tmp_path / f"{number}.parquet")
    return ps.open_table(tmp_path)


def plan_of_unknown(table: ps.Table, predicate: list[Any]) -> ps.Plan:
    """Plan an unsupported predicate without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return table.plan(predicate)


@pytest.mark.parametrize("operator", ["=", "!=", "<", ">=", "in", "not in"])
def test_times_in_steps_of_several_units_skip_nothing(table: ps.Table, operator: str) -> None:
    value, same = STEPS[0], STEPS.astype("M8[s]")[0]
    several = "in" in operator
    assert len(plan_of_unknown(table, [("t", operator, [value] if several else value)]).files) == 2
    exact = table.plan([("t", operator, [same] if several else same)])
    assert exact.to_arrow().num_rows == 1


def test_keys_in_steps_of_several_units_raise(table: ps.Table) -> None:
    for wrong in (STEPS, list(STEPS)):
        with pytest.raises(TypeError, match="steps of several units"):
            table.plan(keys={"t": wrong})
    assert len(table.plan(keys={"t": STEPS.astype("M8[s]")}).files) == 1


def test_a_numpy_day_matches_a_date(table: ps.Table) -> None:
    plan = table.plan([("d", "=", np.datetime64("1970-01-08"))])
    assert (len(plan.files), plan.to_arrow().num_rows) == (1, 1)
    assert len(plan_of_unknown(table, [("d", "=", np.datetime64("1970-01"))]).files) == 2
