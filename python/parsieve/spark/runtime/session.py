"""Start a local Spark session with the jars of the lakes, on a suitable Java."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsieve.spark.runtime import jars as lake_jars
from parsieve.spark.runtime.java import choose, home_for
from parsieve.spark.runtime.versions import LAKES, installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The setting that stores the arguments of `session` in the session that it started.
_ARGUMENTS = "spark.parsieve.session"

_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "hudi": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def session(
    *,
    lakes: Iterable[str] | None = None,
    master: str = "local[*]",
    memory: str = "2g",
    warehouse: str | os.PathLike[str] = "spark-warehouse",
    config: Mapping[str, Any] | None = None,
) -> SparkSession:
    """Start a local Spark session for Hudi, Delta and Iceberg, or return the running one with the same arguments.

    The jars are downloaded once, and verified at every start; `parsieve spark doctor` lists missing ones. You do not
    need this function if you have your own session, for example on a cluster: every function of `parsieve.spark`
    accepts it.

    Args:
        lakes: Some of `"hudi"`, `"delta"` and `"iceberg"`. None is all that the installed PySpark supports.
        master: Spark's master; `local[2]` uses two threads.
        memory: The memory of the driver, which does all the work in a local session.
        warehouse: The folder of managed tables. The catalog `iceberg` is in a folder below it.
        config: Spark settings by name. They override the defaults of this function.

    >>> import parsieve.spark as pss
    >>> spark = pss.session(lakes=["delta"], master="local[2]", memory="1g")
    >>> spark.range(3).count()
    3
    >>> spark.stop()
    """
    spark = installed()
    chosen = tuple(lake for lake in LAKES if lake in spark.jars) if lakes is None else _lake_names(lakes)
    jars = spark.jars_of(chosen)

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = _settings(chosen, Path(warehouse).absolute(), memory)
    settings |= {name: _text(value) for name, value in (config or {}).items()}
    arguments = repr((chosen, master, sorted(settings.items())))
    if (running := SparkContext._active_spark_context) is not None:
        if running.getConf().get(_ARGUMENTS) == arguments:
            return SparkSession.builder.getOrCreate()
        raise RuntimeError(
            "a Spark session with other settings is already running in this process, and its jars and memory cannot "
            "change: stop it first, or use it without pss.session()"
        )
    if SparkContext._gateway is not None:
        _end_idle_machine()
    java = choose(spark)
    paths = lake_jars.ensure(jars, java)
    settings["spark.jars"] = ",".join(filter(None, [*map(str, paths), settings.get("spark.jars", "")]))
    builder = SparkSession.builder.master(master).config(_ARGUMENTS, arguments)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(JAVA_HOME=str(home_for(java, spark)), PYSPARK_PYTHON=sys.executable):
        started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def _lake_names(lakes: Iterable[str]) -> tuple[str, ...]:
    if isinstance(lakes, str):
        raise TypeError(f"lakes must be a collection of names, such as [{lakes!r}]")
    return tuple(dict.fromkeys(lakes))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(lakes: tuple[str, ...], warehouse: Path, memory: str) -> dict[str, str]:
    """Return the settings that the manuals of the lakes require, and settings for a single machine."""
    settings = {
        "spark.app.name": "parsieve",
        "spark.driver.memory": memory,
        # A local session needs no network, and the name of a machine often does not resolve.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }
    if lakes:
        # The order matters: each parser passes statements that it does not know on to the next one.
        settings["spark.sql.extensions"] = ",".join(_EXTENSIONS[lake] for lake in _EXTENSIONS if lake in lakes)
    if "delta" in lakes:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        # The default is 50 partitions, which is slow on one machine.
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    elif "hudi" in lakes:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
    if "hudi" in lakes:
        settings["spark.serializer"] = "org.apache.spark.serializer.KryoSerializer"
        settings["spark.kryo.registrator"] = "org.apache.spark.HoodieSparkKryoRegistrar"
        # Hudi measures objects with a library that attaches to its own JVM, and logs warnings if it may not.
        settings["spark.driver.extraJavaOptions"] = "-Djdk.attach.allowAttachSelf=true -Djol.skipHotspotSAAttach=true"
    if "iceberg" in lakes:
        settings["spark.sql.catalog.iceberg"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.iceberg.type"] = "hadoop"
        settings["spark.sql.catalog.iceberg.warehouse"] = (warehouse / "iceberg").as_uri()
    return settings


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables that Spark reads only when it starts."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _end_idle_machine() -> None:
    """End the Java process of a stopped session, because memory and jars can only be set for a new process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        raise RuntimeError(
            "this program runs under spark-submit, which has already started Java: pass it the jars with --jars, and "
            "create the session with SparkSession.builder"
        )
    gateway.shutdown()
    # The process exits at the end of its input.
    process.stdin.close()
    process.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None
