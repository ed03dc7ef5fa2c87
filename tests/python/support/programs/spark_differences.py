"""Read random tables that Spark writes through plans, and compare the rows with those that Spark reads.

`python tests/python/support/programs/spark_differences.py --conditions 1000 --seed 1` prints each difference with the
number of its table, and a summary. It needs PySpark. After each change, Spark reads the whole table, which is the model
of the new version. Plans read this version and older ones, and `parsieve.spark.read` does too.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate import Expr
from parsieve.predicate.render import to_spark
from support import differences
from support.models.table_states import PER_TABLE, UID, check_history
from support.spark_histories.delta import DeltaHistory
from support.spark_histories.history import SparkHistory
from support.spark_histories.hudi import HudiHistory
from support.spark_histories.iceberg import IcebergHistory
from support.spark_tables import new_session

KINDS = (HudiHistory, DeltaHistory, IcebergHistory)


@contextmanager
def quiet_session() -> Iterator[Any]:
    """Start Spark without log lines, and stop its process in the end, so that its processor time counts as ours."""
    with tempfile.TemporaryDirectory() as warehouse:
        spark = new_session(Path(warehouse))
        spark.sparkContext.setLogLevel("OFF")
        gateway = spark.sparkContext._gateway
        try:
            yield spark
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait()


def check_read(history: SparkHistory, table: ps.Table, condition: Expr, as_of: Any, expected: pa.Table) -> None:
    """Compare the rows of `pss.read` with the expected ones.

    For some conditions, Spark itself fails or returns other rows. Then `pss.read` must do so too.
    """
    where = to_spark(condition)
    found = read_or_fail(lambda: pss.read(history.spark, table, where, as_of))
    if found != sorted(expected[UID].to_pylist()):
        alone = read_or_fail(lambda: history.read(as_of).where(where))
        assert found == alone, f"pss.read at {as_of} returns {found}, Spark alone {alone}: {condition}"


def read_or_fail(read: Callable[[], Any]) -> list[int] | str:
    """Return the keys of the rows, or that Spark failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return sorted(row[0] for row in read().select(UID).collect())
    except (Py4JError, PySparkException):
        return "an error"


def check_table(spark: Any, kinds: Sequence[type[SparkHistory]], seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    chance = random.Random(seed)
    history = chance.choice(kinds)(spark, folder / "t", chance)
    return check_history(seed, history, partial(check_read, history))


if __name__ == "__main__":
    # An index warns about the files that it leaves out.
    logging.getLogger("parsieve").setLevel(logging.ERROR)
    with quiet_session() as spark:
        differences.run(__doc__, partial(check_table, spark, KINDS), PER_TABLE, "files")
