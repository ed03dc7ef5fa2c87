"""Jars are downloaded completely and verified, from a repository on this machine, with the real Ivy."""

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import parsieve as ps
from parsieve.spark.runtime import jars, java, versions

pytest.importorskip("pyspark", reason="the download uses the Ivy that PySpark brings")

CONTENT = b"not really a jar" * 1000
JAR = versions.Jar("org.example", "thing_2.12", "1.0", hashlib.sha256(CONTENT).hexdigest())


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Maven repository with a single jar, on a server of this machine."""
    root = tmp_path / "repository"
    place = root / "org" / "example" / "thing_2.12" / "1.0"
    place.mkdir(parents=True)
    (place / JAR.name).write_bytes(CONTENT)
    (place / "thing_2.12-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>thing_2.12</artifactId><version>1.0</version></project>"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PARSIEVE_MAVEN_REPOSITORY", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("PARSIEVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    yield place
    server.shutdown()
    thread.join()
    server.server_close()


def any_java() -> java.Java:
    return java.choose(versions.installed())


def test_a_jar_is_downloaded_once(repository: Path, tmp_path: Path) -> None:
    [path] = jars.ensure([JAR], any_java())
    assert path.read_bytes() == CONTENT
    assert [one.name for one in (tmp_path / "cache" / "jars").iterdir()] == [JAR.name]
    (repository / JAR.name).unlink()
    assert jars.ensure([JAR], any_java()) == [path]
    assert jars.missing([JAR]) == []


def test_a_damaged_jar_is_downloaded_again(repository: Path) -> None:
    [path] = jars.ensure([JAR], any_java())
    path.write_bytes(CONTENT[:-1] + b"!")
    assert jars.missing([JAR]) == [JAR]
    jars.ensure([JAR], any_java())
    assert path.read_bytes() == CONTENT


def test_a_jar_with_another_checksum_is_deleted(repository: Path, tmp_path: Path) -> None:
    (repository / JAR.name).write_bytes(b"something else")
    with pytest.raises(ps.ParsieveError, match="does not have the pinned SHA-256"):
        jars.ensure([JAR], any_java())
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_a_failed_download_names_the_remedy(repository: Path, tmp_path: Path) -> None:
    (repository / JAR.name).unlink()
    with pytest.raises(ps.ParsieveError, match=r"could not be downloaded.*PARSIEVE_MAVEN_REPOSITORY.*cache"):
        jars.ensure([JAR], any_java())
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_the_local_maven_repository_is_used_first(repository: Path, tmp_path: Path) -> None:
    (repository / JAR.name).unlink()
    place = tmp_path / "home" / ".m2" / "repository" / "org" / "example" / "thing_2.12" / "1.0"
    place.mkdir(parents=True)
    (place / JAR.name).write_bytes(CONTENT)
    assert jars.ensure([JAR], any_java())[0].read_bytes() == CONTENT


def test_processes_can_download_at_the_same_time(repository: Path) -> None:
    program = (
        "from parsieve.spark.runtime import jars, java, versions\n"
        f"print(jars.ensure([versions.Jar{tuple(JAR)!r}], java.choose(versions.installed())))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=os.environ, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {process.communicate(timeout=500)[0] for process in running}
    assert {process.returncode for process in running} == {0}
    assert len(said) == 1
    assert [one.name for one in jars.folder().iterdir()] == [JAR.name]


def test_lakes_without_jars_are_refused() -> None:
    spark = versions.Spark("4.1.4", (4, 1), (17, 21), versions._JARS[4, 1])
    with pytest.raises(ps.UnsupportedError, match=r"hudi for PySpark 4\.1\.4, only .* 3\.5: .*pyspark==3\.5\.\*"):
        spark.jars_of(("hudi",))
    with pytest.raises(ValueError, match="unknown lakes: paimon"):
        spark.jars_of(("paimon",))
