"""Find the installed PySpark, and the versions of Java and the lakes' jars that it needs, with their checksums."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import NamedTuple

from parsieve._core import UnsupportedError

LAKES = ("hudi", "delta", "iceberg")


class Jar(NamedTuple):
    """A file of a Maven repository, and the SHA-256 that it must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return f"{self.artifact}-{self.version}.jar"


class Spark(NamedTuple):
    """An installed PySpark: its version, the major versions of Java that it runs on, and the jars of each lake."""

    version: str
    line: tuple[int, int]
    java: tuple[int, ...]
    jars: dict[str, tuple[Jar, ...]]

    def jars_of(self, lakes: tuple[str, ...]) -> tuple[Jar, ...]:
        """Return the jars of some lakes, or raise `UnsupportedError` if there are none for this PySpark."""
        if unknown := set(lakes) - set(LAKES):
            raise ValueError(f"unknown lakes: {', '.join(sorted(unknown))}; lakes are {', '.join(LAKES)}")
        for lake in lakes:
            if lake not in self.jars:
                lines = " or ".join(f"{major}.{minor}" for (major, minor), jars in _JARS.items() if lake in jars)
                newest = max(line for line, jars in _JARS.items() if lake in jars)
                raise UnsupportedError(
                    f"there are no jars of {lake} for PySpark {self.version}, only for PySpark {lines}: "
                    f"pip install 'pyspark=={newest[0]}.{newest[1]}.*'"
                )
        return tuple(jar for lake in lakes for jar in self.jars[lake])


# We tested that these versions work together. The checksums are from Maven's central repository.
_JARS: dict[tuple[int, int], dict[str, tuple[Jar, ...]]] = {
    (3, 5): {
        "hudi": (
            Jar(
                "org.apache.hudi",
                "hudi-spark3.5-bundle_2.12",
                "1.2.0",
                "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
            ),
        ),
        "delta": (
            Jar(
                "io.delta",
                "delta-spark_2.12",
                "3.3.3",
                "4912bf902a1c453aba3bd838ff212dedd357155212f9bb37a6b47d97f2827ebc",
            ),
            Jar(
                "io.delta",
                "delta-storage",
                "3.3.3",
                "45ad193053fd30cebe6d9ab1889873cde39b223a0f210e00ebee8b6642476901",
            ),
        ),
        "iceberg": (
            Jar(
                "org.apache.iceberg",
                "iceberg-spark-runtime-3.5_2.12",
                "1.12.0",
                "8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
            ),
        ),
    },
    (4, 1): {
        "delta": (
            Jar(
                "io.delta",
                "delta-spark_4.1_2.13",
                "4.4.0",
                "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
            ),
            Jar(
                "io.delta",
                "delta-storage",
                "4.4.0",
                "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
            ),
        ),
        "iceberg": (
            Jar(
                "org.apache.iceberg",
                "iceberg-spark-runtime-4.1_2.13",
                "1.12.0",
                "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
            ),
        ),
    },
}


def installed() -> Spark:
    """Return the PySpark of this environment, or raise `ModuleNotFoundError` with the command to install it."""
    try:
        version = version_of("pyspark")
    except PackageNotFoundError:
        raise ModuleNotFoundError("PySpark is not installed: pip install 'parsieve[spark]'", name="pyspark") from None
    numbers = re.match(r"(\d+)\.(\d+)", version)
    line = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if line < (3, 5):
        raise UnsupportedError(f"parsieve needs PySpark 3.5 or newer; this is {version}")
    # Spark 3.5 does not start on Java 21; Spark 4 starts on 17 and 21.
    return Spark(version, line, (17,) if line < (4, 0) else (17, 21), _JARS.get(line, {}))


def cache_folder() -> Path:
    """Return the folder for downloads: PARSIEVE_CACHE, or the user's cache folder on this platform."""
    if chosen := os.environ.get("PARSIEVE_CACHE"):
        return Path(chosen).absolute()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(base) / "parsieve" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "parsieve"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "parsieve"
