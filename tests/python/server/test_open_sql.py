"""`parsieve serve` in front of a database: it writes nothing, and prints each problem as one line."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from support.serving import sql_catalog

from parsieve.cli import main
from parsieve.server.open_sql import cause, open_sql_catalog


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(capsys: Any, uri: str) -> str:
    """Return the one line that `parsieve serve` prints instead of serving."""
    assert main(["serve", uri]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "secret" not in printed.err
    return str(printed.err)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("foo", "'foo' is not the address of a catalog; write sqlite:///catalog.db or"),
        ("u:secret@host/shop", "the argument is not the address of a catalog; write sqlite"),
        ("postgresql://u:secret@host:port/shop", "the argument is not the address of a catalog; write sqlite"),
        ("foo://host/shop?password=secret", "foo://host/shop: SQLAlchemy does not know the database 'foo'; write"),
        ("postgres://u:secret@host/shop", "postgres://u:***@host/shop: SQLAlchemy does not know the database "),
        ("postgres://u:secret@host/shop", "'postgres'; did you mean 'postgresql'?"),
        ("postgresql://u:a@secret@host/shop", "postgresql://*** contains an '@'; write it as %40"),
        ("postgresql+nope://u:a@b/secret@host/shop", "postgresql+nope://***: SQLAlchemy does not know the"),
        ("mssql+pymssql://u:secret@host/shop", "mssql+pymssql://u:***@host/shop: the driver 'pymssql' is not inst"),
        ("sqlite://", "sqlite:/// is a database in memory, which has no catalog; write sqlite:///FILE"),
        ("sqlite:///.", "cannot open sqlite:///.: unable to open database file; check that the file is a SQLite"),
    ],
)
def test_an_address_that_cannot_be_opened(capsys: Any, uri: str, message: str) -> None:
    assert message in refusal(capsys, uri)


def test_a_missing_file_is_not_created(tmp_path: Path, capsys: Any) -> None:
    for uri in ("sqlite:///typo.db", "sqlite+pysqlite:///typo.db", "sqlite:///file:typo.db?uri=true"):
        assert f"no such file: {tmp_path / 'typo.db'}; check the path" in refusal(capsys, uri)
    assert contents(tmp_path) == {}


def test_a_database_without_a_catalog_stays_as_it_is(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty.db").touch()
    with sqlite3.connect(tmp_path / "half.db") as connection:
        connection.execute("CREATE TABLE iceberg_tables (catalog_name TEXT)")
    connection.close()
    (tmp_path / "text.db").write_text("not a database")
    before = contents(tmp_path)
    assert "has no Iceberg catalog: the table iceberg_tables and the table" in refusal(capsys, "sqlite:///empty.db")
    assert "the table iceberg_namespace_properties is missing" in refusal(capsys, "sqlite:///half.db")
    assert "cannot open sqlite:///text.db: file is not a database" in refusal(capsys, "sqlite:///text.db")
    assert "write sqlite:///empty.db for a SQLite file" in refusal(capsys, "empty.db")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("is_old", [False, True])
def test_opening_a_catalog_writes_nothing(tmp_path: Path, is_old: bool) -> None:
    sql_catalog(tmp_path).close()
    if is_old:
        with sqlite3.connect(tmp_path / "catalog.db") as connection:
            connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
        connection.close()
    before = contents(tmp_path)
    catalog = open_sql_catalog(
        "sqlite:///catalog.db", "sql", {"schema_version": "v1", "init_catalog_tables": "true", "warehouse": "w"}
    )
    assert catalog.list_namespaces() == [("shop",)]
    assert catalog.properties["warehouse"] == "w"
    catalog.close()
    assert contents(tmp_path) == before


def test_a_catalog_whose_file_is_replaced(tmp_path: Path) -> None:
    sql_catalog(tmp_path).close()
    other = sql_catalog(tmp_path / "other")
    other.create_namespace("new")
    other.close()
    catalog = open_sql_catalog("sqlite:///catalog.db", "sql", {})
    assert catalog.list_namespaces() == [("shop",)]
    (tmp_path / "catalog.db").rename("old.db")
    with pytest.raises(FileNotFoundError, match=r"catalog\.db"):
        catalog.list_namespaces()
    assert not (tmp_path / "catalog.db").exists()
    (tmp_path / "other" / "catalog.db").rename("catalog.db")
    assert sorted(catalog.list_namespaces()) == [("new",), ("shop",)]
    catalog.close()


def test_another_name_of_the_catalog_warns(tmp_path: Path) -> None:
    sql_catalog(tmp_path).close()
    with pytest.warns(
        UserWarning, match=r"catalog 'default' in .*catalog.db is empty; .* pass --name with one of: sql"
    ):
        open_sql_catalog("sqlite:///catalog.db", "default", {}).close()


def test_the_error_of_a_driver_is_shown_without_the_password() -> None:
    url = make_url("postgresql://u:top%20secret@host/shop")
    assert cause(OSError("no answer to top secret or top+secret"), url) == "no answer to *** or ***"
    url = make_url("postgresql://u:a@b/secret@host/shop")
    assert cause(OSError("no host b"), url) == "OSError"
