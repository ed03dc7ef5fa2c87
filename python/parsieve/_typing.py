"""The protocols of arguments: what a column and a data type must offer."""

from __future__ import annotations

from typing import Any, Protocol


class ArrowArray(Protocol):
    """One Arrow array: pyarrow, nanoarrow, arro3."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """A stream of Arrow arrays: chunked arrays, polars and pandas series, one-column tables, readers."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class NumpyArray(Protocol):
    """A numpy array, or what becomes one."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


class ArrowType(Protocol):
    """An Arrow data type: `pyarrow.int64()`."""

    def __arrow_c_schema__(self) -> object: ...


Column = ArrowArray | ArrowStream | NumpyArray
LeafPath = str | list[str] | tuple[str, ...]
