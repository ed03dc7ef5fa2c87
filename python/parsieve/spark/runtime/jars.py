"""The jars of the lakes: downloaded once by the Ivy that Spark brings, checked against pinned checksums at each use."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from parsieve._core import ParsieveError
from parsieve.spark.runtime.java import Java
from parsieve.spark.runtime.versions import Jar, cache_folder

# Seconds for all the downloads of one call.
_PATIENCE = 1800
# Debian and Fedora keep the trust in authorities here, for every Java of the machine; a packaged one does not look.
_TRUST = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")


def folder() -> Path:
    """Where the jars are kept. One that is put there by hand is as good: its checksum decides."""
    return cache_folder() / "jars"


def ensure(jars: Sequence[Jar], java: Java) -> list[Path]:
    """The paths of the jars, all verified; what is not there yet is downloaded.

    Processes may do this at once: each brings files in a folder of its own and moves them to their place when they
    are whole and right.
    """
    places = folder()
    missing = [jar for jar in jars if not _good(places / jar.name, jar)]
    if missing:
        places.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=places) as scratch:
            wanted = [jar for jar in missing if not _from_maven(jar, Path(scratch))]
            if wanted:
                _download(wanted, Path(scratch), java)
            for jar in missing:
                new = Path(scratch) / jar.name
                if not _good(new, jar):
                    raise ParsieveError(
                        f"{jar.name} has not the pinned SHA-256 {jar.sha256}: {_repository() or 'the repository'} "
                        "served another file, which was thrown away"
                    )
                _move(new, places / jar.name, jar)
    return [places / jar.name for jar in jars]


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """Those that are not in the cache, or not right."""
    return [jar for jar in jars if not _good(folder() / jar.name, jar)]


def _good(path: Path, jar: Jar) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _move(new: Path, place: Path, jar: Jar) -> None:
    try:
        new.replace(place)
    except PermissionError:
        # Windows does not replace a file that another process has open. If it is right, nothing is lost.
        if not _good(place, jar):
            raise


def _repository() -> str | None:
    return os.environ.get("PARSIEVE_MAVEN_REPOSITORY") or None


def _from_maven(jar: Jar, scratch: Path) -> bool:
    """Take it from the machine's own Maven repository, where someone may have brought it through a mirror."""
    place = Path.home().joinpath(".m2", "repository", *jar.group.split("."), jar.artifact, jar.version, jar.name)
    if not _good(place, jar):
        return False
    shutil.copyfile(place, scratch / jar.name)
    return True


def _download(jars: Sequence[Jar], scratch: Path, java: Java) -> None:
    modules = scratch / "ivy.xml"
    modules.write_text(
        '<ivy-module version="2.0"><info organisation="parsieve" module="jars"/><dependencies>'
        + "".join(
            f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false" '
            'conf="default->default"/>'
            for jar in jars
        )
        + "</dependencies></ivy-module>",
        encoding="utf-8",
    )
    command = [str(java.home / "bin" / ("java.exe" if sys.platform == "win32" else "java"))]
    # Below one folder, so that an answer of another repository is never taken from Ivy's shared cache.
    command += [f"-Divy.default.ivy.user.dir={scratch / 'ivy'}"]
    for store in _TRUST if java.packaged else ():
        if Path(store).is_file():
            command += [f"-Djavax.net.ssl.trustStore={store}"]
            break
    command += ["-cp", str(_ivy()), "org.apache.ivy.Main", "-m2compatible", "-ivy", str(modules), "-types", "jar"]
    command += ["-retrieve", str(scratch / "[artifact]-[revision].[ext]")]
    if repository := _repository():
        settings = scratch / "settings.xml"
        settings.write_text(
            '<ivysettings><settings defaultResolver="chosen"/><resolvers>'
            f'<ibiblio name="chosen" m2compatible="true" root={quoteattr(repository)}/>'
            "</resolvers></ivysettings>",
            encoding="utf-8",
        )
        command += ["-settings", str(settings)]
    print(f"parsieve: downloading {', '.join(jar.name for jar in jars)}", file=sys.stderr)
    said = f"Error no answer within {_PATIENCE} s"
    with contextlib.suppress(subprocess.TimeoutExpired):
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_PATIENCE)
        said = answer.stdout
    absent = [jar for jar in jars if not (scratch / jar.name).is_file()]
    if absent:
        lines = [line.strip() for line in said.splitlines() if re.search("xception|rror ", line)]
        why = lines[0][:500] if lines else "the repository does not have it"
        raise ParsieveError(
            f"{', '.join(jar.name for jar in absent)} could not be downloaded: {why}. Set PARSIEVE_MAVEN_REPOSITORY to "
            f"a Maven repository that this machine reaches, or put the files into {folder()}"
        )


def _ivy() -> Path:
    """The Ivy among the jars of PySpark."""
    spec = find_spec("pyspark")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise ParsieveError(
            f"PySpark has no Ivy among its jars, so nothing can be downloaded; put the jars into {folder()}"
        )
    return found[-1]
