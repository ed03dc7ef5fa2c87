"""Access to the JVM of a Spark session. PySpark keeps these attributes private, so only this module uses them."""

from __future__ import annotations

from typing import Any


def check_session(spark: Any) -> None:
    """Raise `TypeError` unless this is a session."""
    if not hasattr(spark, "createDataFrame"):
        raise TypeError(f"spark must be a SparkSession, not {spark!r}")


def has_jvm(spark: Any) -> bool:
    """Return whether a session runs in a JVM that this process can call. Sessions of Spark Connect do not."""
    check_session(spark)
    return hasattr(spark, "_jvm")


def jvm_of(spark: Any) -> Any:
    """Return py4j's view of the JVM."""
    return spark._jvm


def gateway_of(spark: Any) -> Any:
    """Return py4j's gateway to the JVM."""
    return spark.sparkContext._gateway


def java_context(spark: Any) -> Any:
    """Return the `JavaSparkContext` of a session."""
    return spark.sparkContext._jsc


def java_session(spark: Any) -> Any:
    """Return the `SparkSession` in the JVM."""
    return spark._jsparkSession


def query_of(frame: Any) -> Any:
    """Return the `QueryExecution` of a DataFrame, which has its logical and physical plans."""
    return frame._jdf.queryExecution()
