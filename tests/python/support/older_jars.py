"""A plugin of pytest that runs the Spark tests with older releases of Hudi, Delta and Iceberg: `make test-matrix`.

Releases between these and the ones that parsieve downloads by default should work as well.
"""

from __future__ import annotations

import pytest

from parsieve.spark.runtime import versions
from parsieve.spark.runtime.versions import Jar

HUDI = Jar(
    "org.apache.hudi",
    "hudi-spark3.5-bundle_2.12",
    "1.1.1",
    "5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604",
)
DELTA = (
    Jar(
        "io.delta",
        "delta-spark_2.12",
        "3.2.1",
        "088e187da689a347a6a8556dcb22318e3dfcfb995d807f5e2c19b4d0a7ee9499",
    ),
    Jar("io.delta", "delta-storage", "3.2.1", "4dcc179fc4076bda5060a4038f979c53e1f5916cf04971e28f9441db390763c7"),
)
ICEBERG = Jar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-3.5_2.12",
    "1.10.1",
    "39ea09e6c03550a300b9d9ab498949836d2d434e441da4c12a943a086e396940",
)

versions._JARS[3, 5] = {"hudi": (HUDI,), "delta": DELTA, "iceberg": (ICEBERG,)}

# Tests of what these releases cannot do.
SKIPPED = {
    "test_spark_opens_only_the_planned_files": "Iceberg 1.10 does not let a catalog plan its scans",
    "test_iceberg_tables_with_deletes_are_pruned_at_each_snapshot_and_schema": (
        "Iceberg 1.10 raises an error for a filter on an earlier snapshot if its partition column was renamed since"
    ),
    "test_deletion_vectors_remove_rows_and_change_tokens": (
        "deltalake 1.5, with which the test compares rows, removes other rows than those at the positions of the vector"
    ),
    "test_the_mapping_of_a_table_without_mapped_columns_does_not_count": "deltalake 1.5 refuses such tables",
    "test_snapshots_from_checkpoints_equal_those_from_the_log": (
        "deltalake 1.5 writes checkpoints that pyarrow cannot read as a whole"
    ),
    "test_random_logs_have_the_files_of_all_actions": "deltalake 1.5 cannot read logs with empty lines",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of what these releases cannot do."""
    for item in items:
        if reason := SKIPPED.get(getattr(item, "originalname", item.name)):
            item.add_marker(pytest.mark.skip(reason=reason))
