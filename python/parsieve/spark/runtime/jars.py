"""Download the jars of the lakes once, with the Ivy in PySpark, and check them against pinned checksums at each use."""

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

# The timeout for all downloads of one call, in seconds.
_TIMEOUT = 1800
# Where Debian and Fedora store the trusted certificates for Java. A packaged Java does not look there.
_TRUST = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")


def folder() -> Path:
    """Return the folder of the jars. You can also put jars there yourself, if their checksums are right."""
    return cache_folder() / "jars"


def ensure(jars: Sequence[Jar], java: Java) -> list[Path]:
    """Download the missing jars, verify all of them, and return their paths.

    Several processes may do this at the same time: each downloads to its own folder, and moves complete and verified
    files to the cache.
    """
    cache = folder()
    missing = [jar for jar in jars if not _is_valid(cache / jar.name, jar)]
    if missing:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as scratch:
            to_download = [jar for jar in missing if not _copy_from_maven(jar, Path(scratch))]
            if to_download:
                _download(to_download, Path(scratch), java)
            for jar in missing:
                new = Path(scratch) / jar.name
                if not _is_valid(new, jar):
                    raise ParsieveError(
                        f"{jar.name} does not have the pinned SHA-256 {jar.sha256}: "
                        f"{_repository() or 'the repository'} served another file, which was deleted"
                    )
                _move(new, cache / jar.name, jar)
    return [cache / jar.name for jar in jars]


def missing(jars: Iterable[Jar]) -> list[Jar]:
    """Return the jars that are missing from the cache, or damaged there."""
    return [jar for jar in jars if not _is_valid(folder() / jar.name, jar)]


def _is_valid(path: Path, jar: Jar) -> bool:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def _move(new: Path, place: Path, jar: Jar) -> None:
    try:
        new.replace(place)
    except PermissionError:
        # Windows does not replace a file that another process has open. That is fine if the file is valid.
        if not _is_valid(place, jar):
            raise


def _repository() -> str | None:
    return os.environ.get("PARSIEVE_MAVEN_REPOSITORY") or None


def _copy_from_maven(jar: Jar, scratch: Path) -> bool:
    """Copy a jar from the local Maven repository of this user. Return whether it is there."""
    place = Path.home().joinpath(".m2", "repository", *jar.group.split("."), jar.artifact, jar.version, jar.name)
    if not _is_valid(place, jar):
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
    # Use an own folder, so that Ivy does not take files from its shared cache, which may be of another repository.
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
    output = f"Error no answer within {_TIMEOUT} s"
    with contextlib.suppress(subprocess.TimeoutExpired):
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_TIMEOUT)
        output = answer.stdout
    absent = [jar for jar in jars if not (scratch / jar.name).is_file()]
    if absent:
        lines = [line.strip() for line in output.splitlines() if re.search("xception|rror ", line)]
        reason = lines[0][:500] if lines else "the repository does not have it"
        raise ParsieveError(
            f"{', '.join(jar.name for jar in absent)} could not be downloaded: {reason}. Set PARSIEVE_MAVEN_REPOSITORY "
            f"to a Maven repository that this machine can access, or put the files into {folder()}"
        )


def _ivy() -> Path:
    """Return the jar of Ivy in PySpark."""
    spec = find_spec("pyspark")
    ivy_jars = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not ivy_jars:
        raise ParsieveError(f"cannot download jars, because PySpark has no jar of Ivy; put the jars into {folder()}")
    return ivy_jars[-1]
