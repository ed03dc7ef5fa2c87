"""An upstream catalog that pyiceberg opens, such as a SQL catalog. It is only read."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from parsieve.server.open_sql import cause
from parsieve.server.protocol.errors import no_namespace, no_table, too_busy

Name = tuple[str, ...]

_LOGGER = logging.getLogger("parsieve.server")


class LocalCatalog:
    """The tables of a catalog of pyiceberg. The server reads all of them with its own rights."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def namespaces(self, parent: Name) -> list[list[str]]:
        """Return the namespaces below another one, or the outermost ones."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            with self._database():
                names = [tuple(name) for name in self._catalog.list_namespaces(parent)]
        except NoSuchNamespaceError:
            raise no_namespace(".".join(parent)) from None
        # Some catalogs return names relative to the parent's.
        return [list(name if name[: len(parent)] == parent else parent + name) for name in names if name != parent]

    def properties(self, namespace: Name) -> dict[str, str]:
        """Return the properties of a namespace."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            with self._database():
                properties = self._catalog.load_namespace_properties(namespace)
        except NoSuchNamespaceError:
            raise no_namespace(".".join(namespace)) from None
        return {str(key): str(value) for key, value in properties.items()}

    def tables(self, namespace: Name) -> list[Name]:
        """Return the tables of a namespace."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            with self._database():
                return [tuple(name) for name in self._catalog.list_tables(namespace)]
        except NoSuchNamespaceError:
            raise no_namespace(".".join(namespace)) from None

    def load(self, name: Name) -> Any:
        """Return a table in its current state."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            with self._database():
                return self._catalog.load_table(name)
        except (NoSuchNamespaceError, NoSuchTableError):
            raise no_table(".".join(name)) from None

    def metadata(self, name: Name) -> tuple[str, Any]:
        """Return the metadata file of a table, and its content as it is: pyiceberg cannot write all versions."""
        table = self.load(name)
        location = str(table.metadata_location)
        with table.io.new_input(location).open() as file:
            content = file.read()
        is_compressed = location.endswith((".gz", ".gz.metadata.json"))
        return location, json.loads(gzip.decompress(content) if is_compressed else content)

    @contextmanager
    def _database(self) -> Iterator[None]:
        """Report a database that cannot be read as an error after which clients may try again."""
        from sqlalchemy.exc import InterfaceError, OperationalError
        from sqlalchemy.exc import TimeoutError as NoFreeConnection

        try:
            yield
        except (InterfaceError, OperationalError, NoFreeConnection) as error:
            _LOGGER.warning("cannot read the database of the catalog: %s", cause(error, self._catalog.engine.url))
            raise too_busy("the server cannot read the database of its catalog; try again") from None
