"""Ask pyiceberg or Spark many random queries on tables of `parsieve serve`, and print those with other rows.

PYTHONPATH=tests/python .venv/bin/python tests/python/support/programs/served_differences.py --engine pyiceberg
PYTHONPATH=tests/python:python .venv-spark/bin/python tests/python/support/programs/served_differences.py --engine spark
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import parsieve as ps
from support import served_queries

# Spark takes long to write a table.
QUERIES_OF_A_TABLE = {"pyiceberg": 50, "spark": 250}


def main() -> int:
    """Print the differences, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--engine", choices=["pyiceberg", "spark"], default="pyiceberg")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    total = 0
    before = ps.metrics()
    with ExitStack() as stack:
        spark = _spark(stack) if arguments.engine == "spark" else None
        count = QUERIES_OF_A_TABLE[arguments.engine]
        for number in range(-(-arguments.queries // count)):
            seed = f"{arguments.seed} {number}"
            random_ = random.Random(seed)
            with tempfile.TemporaryDirectory() as folder:
                table = (
                    served_queries.spark_table(spark, random_, Path(folder))
                    if spark
                    else served_queries.pyiceberg_table(random_, Path(folder))
                )
                with table as differences:
                    different = differences(seed, count)
            total += len(different)
            print(*different, sep="\n", end="\n" if different else "", flush=True)
    planned = ps.metrics() - before
    print(f"{total} of {arguments.queries} differ; {planned.plans} plans: {planned.files_kept} files kept, ", end="")
    print(f"{planned.files_skipped} skipped")
    return int(total > 0)


def _spark(stack: ExitStack) -> Any:
    import parsieve.spark as pss

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    # The tables are small, so compiling the queries would take most of the time.
    config = {"spark.sql.session.timeZone": "UTC", "spark.sql.codegen.wholeStage": False}
    config |= {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.ui.showConsoleProgress": False}
    # Spark's cache, the oracle, would lose NaN.
    config |= {"spark.sql.inMemoryColumnarStorage.partitionPruning": False}
    spark = pss.session(master="local[2]", warehouse=folder, config=config)
    stack.callback(spark.stop)
    return spark


if __name__ == "__main__":
    sys.exit(main())
