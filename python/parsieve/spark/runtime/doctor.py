"""Check the requirements of a Spark session on this machine, and say how to install missing ones."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import NamedTuple

from parsieve._core import ParsieveError
from parsieve.spark.runtime import jars as lake_jars
from parsieve.spark.runtime.java import choose, find_all, home_for
from parsieve.spark.runtime.versions import LAKES, Spark, installed
from parsieve.spark.runtime.workers import problem_of_path


class Item(NamedTuple):
    """A requirement of a session: `"ok"`, `"missing"`, or `"optional"` if it is missing but a session still starts."""

    name: str
    state: str
    # The version or path that was found, or "".
    found: str
    # How to fix it; "" if it is ok.
    remedy: str


def examine(fetch: bool = False) -> list[Item]:
    """Check all requirements; with `fetch`, download missing jars first.

    >>> from parsieve.spark.runtime.doctor import examine
    >>> [item.name for item in examine()][:2]
    ['Python', 'PySpark']
    """
    python = ".".join(map(str, sys.version_info[:3]))
    items = [Item("Python", "ok", f"{python}, {sys.executable}", "")]
    try:
        spark = installed()
    except (ModuleNotFoundError, ParsieveError) as error:
        return [*items, Item("PySpark", "missing", "", str(error)), _pandas()]
    return [*items, *_pyspark(spark), _pandas(), _java(spark), _executors(), *_lakes(spark, fetch)]


def _pyspark(spark: Spark) -> list[Item]:
    items = [Item("PySpark", "ok", spark.version, "")]
    if spark.line < (4, 0) and sys.version_info >= (3, 12):
        # PySpark 3.5 imports distutils. From Python 3.12 on, that is part of setuptools.
        try:
            items.append(Item("setuptools", "ok", version_of("setuptools"), ""))
        except PackageNotFoundError:
            remedy = f"PySpark {spark.version} needs it from Python 3.12 on: pip install setuptools"
            items.append(Item("setuptools", "missing", "", remedy))
    return items


def _pandas() -> Item:
    try:
        found = version_of("pandas")
    except PackageNotFoundError:
        return Item("pandas", "missing", "", "pip install 'pandas<3'")
    if int(found.split(".")[0]) >= 3:
        return Item("pandas", "missing", found, "PySpark does not know pandas 3 yet: pip install 'pandas<3'")
    return Item("pandas", "ok", found, "")


def _java(spark: Spark) -> Item:
    try:
        java = choose(spark)
        home_for(java, spark)
    except ParsieveError as error:
        return Item("Java", "missing", ", ".join(f"{java.version} at {java.home}" for java in find_all()), str(error))
    return Item("Java", "ok", f"{java.version} at {java.home} ({java.source})", "")


def _executors() -> Item:
    """Check the Python that executors use in sessions that `pss.session` did not start."""
    executable, problem = problem_of_path()
    if not problem:
        return Item("executors", "ok", executable, "")
    remedy = (
        f"optional: {problem}. Your own session on a cluster needs PYSPARK_PYTHON={sys.executable}; local sessions "
        "and pss.session() work without it"
    )
    return Item("executors", "optional", executable, remedy)


def _lakes(spark: Spark, fetch: bool) -> list[Item]:
    items = []
    for lake in LAKES:
        if lake not in spark.jars:
            try:
                spark.jars_of((lake,))
            except ParsieveError as error:
                items.append(Item(lake, "optional", "", f"optional: {error}"))
            continue
        jars = spark.jars_of((lake,))
        remedy = (
            f"only {lake.capitalize()} tables need them; the first pss.session() downloads them, or now: "
            "parsieve spark doctor --fetch"
        )
        if fetch:
            try:
                lake_jars.ensure(jars, choose(spark))
            except ParsieveError as error:
                remedy = str(error)
        names = ", ".join(jar.name for jar in jars)
        if absent := lake_jars.missing(jars):
            absent_names = ", ".join(jar.name for jar in absent)
            message = f"optional: {absent_names} missing from {lake_jars.folder()}, or damaged; {remedy}"
            items.append(Item(lake, "optional", names, message))
        else:
            items.append(Item(lake, "ok", f"{names} in {lake_jars.folder()}", ""))
    return items
