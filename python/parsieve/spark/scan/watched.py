"""Spark's reader of plain Parquet files, made to fail where a file was replaced after Spark had listed it.

The class is `WatchedParquet.java`. Spark carries the compiler of its own generated code, Janino, which also compiles
this one: once for each session, for the Spark that runs. Executors get it as they get the jars of `--jars`.
"""

from __future__ import annotations

import logging
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsieve.spark.runtime.gateway import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("parsieve.spark")

# Set to "false" to read files with Spark's own class, which other engines inside Spark may look for.
SETTING = "spark.parsieve.watchFiles"
_PLAIN = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
# The application whose executors have the class, and the class there; None where it cannot be made.
_made: tuple[str, Any] | None = None


def watched(spark: SparkSession, file_format: Any) -> Any:
    """Return a format that reads as the given one does and notices replaced files; the given one if there is none."""
    if str(file_format.getClass().getName()) != _PLAIN or spark.conf.get(SETTING, "true") == "false":
        return file_format
    made = _format_for(spark)
    return file_format if made is None else made


def _format_for(spark: SparkSession) -> Any:
    global _made
    application = str(spark.sparkContext.applicationId)
    if _made is None or _made[0] != application:
        found = None
        try:
            found = _make(spark)
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            _log.warning("files that are replaced while Spark reads them will not be noticed: %s", said)
        _made = application, found
    return _made[1]


def _make(spark: Any) -> Any:
    jvm, context = jvm_of(spark), spark.sparkContext
    source = (files("parsieve.spark.scan") / "WatchedParquet.java").read_text(encoding="utf-8")
    # Scala 2.13 moved what Spark calls Seq.
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
    context._jsc.addJar(str(jar))
    places = context._gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(places, parent)
    no_types = context._gateway.new_array(jvm.java.lang.Class, 0)
    made = loader.loadClass("parsieve.WatchedParquet").getDeclaredConstructor(no_types)
    return made.newInstance(context._gateway.new_array(jvm.java.lang.Object, 0))
