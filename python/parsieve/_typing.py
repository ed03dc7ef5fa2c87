"""Type aliases and protocols for arguments: columns, predicates and tables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    # For type checkers and editors only. Importing parsieve must not import these.
    from deltalake import DeltaTable
    from polars import Expr as PolarsExpr
    from pyarrow.compute import Expression as ArrowExpression
    from pyiceberg.table import Table as IcebergTable

    from parsieve._core import FileKeys
    from parsieve.io.store.base import Store
    from parsieve.predicate.expr import Expr


class ArrowArray(Protocol):
    """One Arrow array: pyarrow, nanoarrow, arro3."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """A stream of Arrow arrays: chunked arrays, polars and pandas series, one-column tables, readers."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class NumpyArray(Protocol):
    """A numpy array, or an object that converts to one."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


class ArrowType(Protocol):
    """An Arrow data type: `pyarrow.int64()`."""

    def __arrow_c_schema__(self) -> object: ...


Column = ArrowArray | ArrowStream | NumpyArray
LeafPath = str | list[str] | tuple[str, ...]
ColumnName = str | tuple[str, ...]
Term = tuple[ColumnName, str, Any]

# A predicate: SQL text, an expression of pyarrow or Polars, (column, op, value) tuples, or None for every row.
Where: TypeAlias = "str | ArrowExpression | PolarsExpr | Term | Sequence[Term] | Sequence[Sequence[Term]] | Expr | None"

# A path or URI; or a pair of a filesystem (pyarrow.fs, fsspec) or store (obstore) and a path in it.
Place = str | os.PathLike[str] | tuple[Any, str | os.PathLike[str]]
TableSource: TypeAlias = "Place | DeltaTable | IcebergTable"
IndexLocation: TypeAlias = "Place | Store | None"


class Kms(Protocol):
    """A client of a key management service, such as pyarrow's `KmsClient`."""

    def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> bytes: ...


# Keys, or a client of a key management service alone or with pyarrow's `KmsConnectionConfig`.
TableKeysArgument: TypeAlias = "FileKeys | Mapping[str, Any] | tuple[Any, Any] | Kms | None"
