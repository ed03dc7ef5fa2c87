"""Runs the server in a thread, with tables in a SQL catalog."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from uvicorn.config import Config
from uvicorn.server import Server


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Run an application on a free port, and yield its address."""
    server = Server(Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def sql_catalog(folder: Path) -> Any:
    """Return an empty SQL catalog in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = opened_catalog(folder)
    catalog.create_namespace("shop")
    return catalog


def opened_catalog(folder: Path | str) -> Any:
    """Return the SQL catalog in a folder."""
    return load_catalog("sql", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")


def client(uri: str, **properties: str) -> Any:
    """Return pyiceberg's client of a server."""
    return load_catalog("rest", type="rest", uri=uri, **properties)
