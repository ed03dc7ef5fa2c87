"""A local Spark session with the jars of the lakes, on whichever Java fits."""

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

# How the session that we started was asked for, kept in its own configuration.
_ASKED = "spark.parsieve.session"

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
    """Start a local Spark session that knows Hudi, Delta and Iceberg, or give the one that was started so before.

    The jars are downloaded once and verified at every start; `parsieve spark doctor` tells what is there and what is
    missing. A session of your own or of a cluster needs none of this: every function of `parsieve.spark` takes it as
    it is.

    Args:
        lakes: some of `"hudi"`, `"delta"`, `"iceberg"`; by default all that go with the installed PySpark.
        master: Spark's master; `local[2]` uses two threads.
        memory: of the driver, which in a local session does all the work.
        warehouse: the folder of managed tables; the catalog `iceberg` lies below it.
        config: settings of Spark by their names, before which the defaults here give way.

    >>> import parsieve.spark as pss
    >>> spark = pss.session(lakes=["delta"], master="local[2]", memory="1g")
    >>> spark.range(3).count()
    3
    >>> spark.stop()
    """
    spark = installed()
    chosen = tuple(lake for lake in LAKES if lake in spark.jars) if lakes is None else _several(lakes)
    wanted = spark.jars_of(chosen)

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings = _settings(chosen, Path(warehouse).absolute(), memory)
    settings |= {name: _text(value) for name, value in (config or {}).items()}
    asked = repr((chosen, master, sorted(settings.items())))
    if (running := SparkContext._active_spark_context) is not None:
        if running.getConf().get(_ASKED) == asked:
            return SparkSession.builder.getOrCreate()
        raise RuntimeError(
            "a Spark session with other settings runs in this process, and its jars and memory can no longer change: "
            "stop it first, or use it as it is"
        )
    if SparkContext._gateway is not None:
        _end_idle_machine()
    java = choose(spark)
    places = lake_jars.ensure(wanted, java)
    settings["spark.jars"] = ",".join(filter(None, [*map(str, places), settings.get("spark.jars", "")]))
    builder = SparkSession.builder.master(master).config(_ASKED, asked)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(JAVA_HOME=str(home_for(java, spark)), PYSPARK_PYTHON=sys.executable):
        started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def _several(lakes: Iterable[str]) -> tuple[str, ...]:
    if isinstance(lakes, str):
        raise TypeError(f"lakes is a collection of names, such as [{lakes!r}]")
    return tuple(dict.fromkeys(lakes))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(lakes: tuple[str, ...], warehouse: Path, memory: str) -> dict[str, str]:
    """What the lakes ask for in their manuals, and what suits one machine."""
    settings = {
        "spark.app.name": "parsieve",
        "spark.driver.memory": memory,
        # A local session talks to nobody, and the name of a machine often does not resolve.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": warehouse.as_uri(),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }
    if lakes:
        # Hudi's comes after Delta's: each parser hands on what it does not know.
        settings["spark.sql.extensions"] = ",".join(_EXTENSIONS[lake] for lake in _EXTENSIONS if lake in lakes)
    if "delta" in lakes:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        # The log of a small table in fifty partitions is slow on one machine.
        settings["spark.databricks.delta.snapshotPartitions"] = "2"
    elif "hudi" in lakes:
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
    if "hudi" in lakes:
        settings["spark.serializer"] = "org.apache.spark.serializer.KryoSerializer"
        settings["spark.kryo.registrator"] = "org.apache.spark.HoodieSparkKryoRegistrar"
        # Hudi measures objects with a library that attaches to its own machine, and complains where it may not.
        settings["spark.driver.extraJavaOptions"] = "-Djdk.attach.allowAttachSelf=true -Djol.skipHotspotSAAttach=true"
    if "iceberg" in lakes:
        settings["spark.sql.catalog.iceberg"] = "org.apache.iceberg.spark.SparkCatalog"
        settings["spark.sql.catalog.iceberg.type"] = "hadoop"
        settings["spark.sql.catalog.iceberg.warehouse"] = (warehouse / "iceberg").as_uri()
    return settings


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set variables that Spark reads only while it starts."""
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
    """End the Java process that a stopped session left: memory and jars are given only to a new one."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        raise RuntimeError(
            "this program runs under spark-submit, which has started Java already: give it the jars with --jars, and "
            "make the session with SparkSession.builder"
        )
    gateway.shutdown()
    # It waits for the end of its input, and then goes.
    process.stdin.close()
    process.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None
