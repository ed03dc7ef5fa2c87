"""An upstream catalog that pyiceberg opens, such as a SQL catalog. It is only read."""

from __future__ import annotations

import gzip
import json
from typing import Any

from parsieve.server.protocol.errors import no_namespace, no_table

Name = tuple[str, ...]


class LocalCatalog:
    """The tables of a catalog of pyiceberg. The server reads all of them with its own rights."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def namespaces(self, parent: Name) -> list[list[str]]:
        """Return the namespaces below another one, or the outermost ones."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            names = [tuple(name) for name in self._catalog.list_namespaces(parent)]
        except NoSuchNamespaceError:
            raise no_namespace(".".join(parent)) from None
        # Some catalogs return names relative to the parent's.
        return [list(name if name[: len(parent)] == parent else parent + name) for name in names if name != parent]

    def properties(self, namespace: Name) -> dict[str, str]:
        """Return the properties of a namespace."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            return {str(name): str(value) for name, value in self._catalog.load_namespace_properties(namespace).items()}
        except NoSuchNamespaceError:
            raise no_namespace(".".join(namespace)) from None

    def tables(self, namespace: Name) -> list[Name]:
        """Return the tables of a namespace."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        try:
            return [tuple(name) for name in self._catalog.list_tables(namespace)]
        except NoSuchNamespaceError:
            raise no_namespace(".".join(namespace)) from None

    def load(self, name: Name) -> Any:
        """Return a table in its current state."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
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
