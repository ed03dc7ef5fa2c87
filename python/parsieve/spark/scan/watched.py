"""Make Spark's reader of plain Parquet files fail if a file was replaced after Spark listed it.

The reader is the class in `WatchedParquet.java`. Each session compiles it once, against the running Spark, with Janino,
the compiler that Spark uses for its generated code. Executors get the class as they get the jars of `--jars`.
"""

from __future__ import annotations

import logging
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsieve.spark.runtime.gateway import gateway_of, java_context, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("parsieve.spark")

# Set to "false" to read files with Spark's own class, for engines inside Spark that look for that class.
SETTING = "spark.parsieve.watchFiles"
_PLAIN = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
# The application whose executors have the class, and an instance of it; None if it cannot be compiled.
_compiled: tuple[str, Any] | None = None


def watched(spark: SparkSession, file_format: Any) -> Any:
    """Return a file format that reads like the given one and detects replaced files, or the given one if impossible."""
    if str(file_format.getClass().getName()) != _PLAIN or spark.conf.get(SETTING, "true") == "false":
        return file_format
    watching = _format_for(spark)
    return file_format if watching is None else watching


def _format_for(spark: SparkSession) -> Any:
    global _compiled
    application = str(spark.sparkContext.applicationId)
    if _compiled is None or _compiled[0] != application:
        file_format = None
        try:
            file_format = _compile(spark)
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            _log.warning("files that are replaced while Spark reads them will not be noticed: %s", reason)
        _compiled = application, file_format
    return _compiled[1]


def _compile(spark: Any) -> Any:
    jvm, gateway = jvm_of(spark), gateway_of(spark)
    source = (files("parsieve.spark.scan") / "WatchedParquet.java").read_text(encoding="utf-8")
    # Spark's Seq is another class from Scala 2.13 on.
    is_old = str(jvm.scala.util.Properties.versionNumberString()).startswith("2.12")
    source = source.replace("SEQ", f"scala.collection.{'' if is_old else 'immutable.'}Seq")
    parent = jvm.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(parent)
    compiler.cook(source)
    classes = compiler.getBytecodes()
    # Spark removes this folder when it stops.
    jar = Path(str(jvm.org.apache.spark.SparkFiles.getRootDirectory())) / "parsieve-watched.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in classes:
            archive.writestr(str(name).replace(".", "/") + ".class", bytes(classes[name]))
    java_context(spark).addJar(str(jar))
    places = gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(places, parent)
    no_types = gateway.new_array(jvm.java.lang.Class, 0)
    constructor = loader.loadClass("parsieve.WatchedParquet").getDeclaredConstructor(no_types)
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
