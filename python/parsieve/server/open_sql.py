"""Open a SQL catalog without writing to its database."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote, urlsplit

from parsieve._core import UnsupportedError
from parsieve.errors import describe, did_you_mean

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

# The tables of a SQL catalog. pyiceberg would create them if they are missing.
TABLES = ("iceberg_tables", "iceberg_namespace_properties")
# With other values, pyiceberg may create tables, or add a column to a table.
READ_ONLY = {"init_catalog_tables": "false", "schema_version": "v0"}
# Open a new connection if the database has closed an idle one, for example because it restarted.
_DEFAULTS = {"pool_pre_ping": "true"}
_EXAMPLES = "sqlite:///catalog.db or postgresql+psycopg2://user@host/database"
_DIALECTS = ("sqlite", "postgresql", "mysql", "mariadb", "oracle", "mssql")


def open_sql_catalog(uri: str, name: str, options: dict[str, str]) -> Any:
    """Return pyiceberg's catalog in a database. Raise an error if the database has none; never create one.

    Args:
        uri: The address of the database, in the form of SQLAlchemy. Errors never contain its password.
        name: The catalog's name in the database.
        options: Further properties of the catalog for pyiceberg.
    """
    from pyiceberg.catalog import load_catalog

    url = _parsed(uri)
    _require_file(url)
    _require_catalog(_engine(url), url, name)
    catalog: Any = load_catalog(name, **(_DEFAULTS | options | READ_ONLY | {"type": "sql", "uri": uri}))
    if url.get_backend_name() == "sqlite":
        catalog.engine.dispose()
        catalog.engine = _opened_for_each_request(url)
    return catalog


def _opened_for_each_request(url: URL) -> Engine:
    """Return an engine that opens a SQLite file for each request.

    An open connection would read the old file after another one took its place, and a new one creates a missing file.
    """
    from sqlalchemy import create_engine, event
    from sqlalchemy.pool import NullPool

    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "do_connect", lambda *_: _require_file(url))
    return engine


def shown(url: URL) -> str:
    """Return an address for messages, without its password, and without its options, which may contain one.

    >>> from sqlalchemy import make_url
    >>> from parsieve.server.open_sql import shown
    >>> shown(make_url("postgresql://ann:secret@host/shop?sslpassword=secret"))
    'postgresql://ann:***@host/shop'
    """
    if _has_unclear_password(url):
        return f"{url.drivername}://***"
    if url.get_backend_name() == "sqlite":
        return f"{url.drivername}:///{url.database or ''}"
    return url.set(query={}).render_as_string(hide_password=True)


def _has_unclear_password(url: URL) -> bool:
    """Return whether other parts of the address may belong to the password, because it contains an "@"."""
    return url.password is not None and "@" in f"{url.host} {url.database}"


def _parsed(uri: str) -> URL:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError
    except ImportError:
        raise UnsupportedError("SQL catalogs need SQLAlchemy: pip install 'pyiceberg[sql-sqlite]'") from None
    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        text = "the argument" if "@" in uri or "?" in uri else repr(uri)
        instead = f"{_EXAMPLES}, or https://host/path for REST"
        if Path(uri).is_file():
            instead = f"sqlite:///{uri} for a SQLite file"
        raise ValueError(f"{text} is not the address of a catalog; write {instead}") from None
    if url.password is not None and "@" in (url.host or ""):
        raise ValueError(f"the password in {shown(url)} contains an '@'; write it as %40")
    return url


def _require_file(url: URL) -> None:
    """Raise an error if a SQLite file does not exist, because SQLite would create it."""
    if url.get_backend_name() != "sqlite":
        return
    database = url.database or ""
    if database in ("", ":memory:") or url.query.get("mode") == "memory":
        raise ValueError(f"{shown(url)} is a database in memory, which has no catalog; write sqlite:///FILE")
    path = Path(unquote(urlsplit(database).path) if database.startswith("file:") else database)
    if not path.exists():
        raise FileNotFoundError(
            f"{shown(url)}: no such file: {path.absolute()}; check the path "
            "(sqlite:///FILE is relative to the current folder, and sqlite:////FILE is absolute)"
        )


def _engine(url: URL) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

    try:
        return create_engine(url)
    except NoSuchModuleError:
        dialect = url.drivername
        hint = did_you_mean(dialect, _DIALECTS) or f"; write an address such as {_EXAMPLES}, or install its dialect"
        raise UnsupportedError(f"{shown(url)}: SQLAlchemy does not know the database {dialect!r}{hint}") from None
    except ImportError as error:
        raise UnsupportedError(
            f"{shown(url)}: the driver {error.name or str(error)!r} is not installed; install its Python package, or "
            f"name an installed driver in the address, such as {url.get_backend_name()}+DRIVER://"
        ) from None
    except (SQLAlchemyError, TypeError, ValueError) as error:
        raise ValueError(f"{shown(url)}: {cause(error, url)}; write an address such as {_EXAMPLES}") from None


def _require_catalog(engine: Engine, url: URL, name: str) -> None:
    """Raise an error if a database has no SQL catalog. Warn if all of its catalogs have other names."""
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with engine.connect() as connection:
            tables = inspect(connection)
            missing = [table for table in TABLES if not tables.has_table(table)]
            names = [] if missing else _catalog_names(connection)
    except (SQLAlchemyError, OSError, TypeError, ValueError) as error:
        is_file = url.get_backend_name() == "sqlite"
        remedy = "the file is a SQLite database" if is_file else "the address is right and the database runs"
        raise ConnectionError(f"cannot open {shown(url)}: {cause(error, url)}; check that {remedy}") from None
    finally:
        engine.dispose()
    if missing:
        raise ValueError(
            f"{shown(url)} has no Iceberg catalog: the table {' and the table '.join(missing)} "
            f"{'are' if len(missing) > 1 else 'is'} missing; check the address, or create the catalog with pyiceberg"
        )
    if names and name not in names:
        warnings.warn(
            f"the catalog {name!r} in {shown(url)} is empty; to serve another one, pass --name with one of: "
            f"{', '.join(names)}",
            stacklevel=2,
        )


def _catalog_names(connection: Connection) -> list[str]:
    """Return the names of the catalogs in a database."""
    from sqlalchemy import column, select, table

    name: Any = column("catalog_name")
    return sorted({str(row[0]) for of in TABLES for row in connection.execute(select(name).select_from(table(of)))})


def cause(error: Exception, url: URL) -> str:
    """Return the driver's own error as one line without the password."""
    if _has_unclear_password(url):
        return type(error).__name__
    text = describe(getattr(error, "orig", None) or error)
    for secret in (url.password, quote_plus(url.password or "")):
        text = text.replace(secret, "***") if secret else text
    return text
