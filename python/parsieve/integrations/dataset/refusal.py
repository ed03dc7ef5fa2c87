"""The C++ dataset inside a table's dataset. It has the table's columns, and any read of it raises an error."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow import fs

from parsieve._core import UnsupportedError

MESSAGE = (
    "this function would read a table's files without the table's deletes and without parsieve; use the dataset's "
    "scanner(), to_table() or to_batches(), or pyarrow.dataset.dataset(dataset.to_table())"
)


def refuse(*arguments: Any, **options: Any) -> NoReturn:
    """Raise `UnsupportedError`."""
    raise UnsupportedError(MESSAGE)


class _Refusing(fs.FileSystemHandler):  # type: ignore[misc]
    """A filesystem that opens nothing."""

    def get_type_name(self) -> str:
        return "parsieve"

    def normalize_path(self, path: str) -> str:
        return path

    copy_file = create_dir = delete_dir = delete_dir_contents = delete_file = delete_root_dir_contents = refuse
    get_file_info = get_file_info_selector = move = open_append_stream = refuse
    open_input_file = open_input_stream = open_output_stream = refuse


def refusing_dataset(schema: pa.Schema) -> pads.FileSystemDataset:
    """Return a dataset with these columns. pyarrow's own code cannot read it, and does not return zero rows."""
    kind = pads.ParquetFileFormat()
    files = fs.PyFileSystem(_Refusing())
    return pads.FileSystemDataset([kind.make_fragment("table", files)], schema, kind, files)
