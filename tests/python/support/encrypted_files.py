"""Write small encrypted files with pyarrow, and return their keys for tests with other readers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

TABLE = pa.table({"secret": [f"secret {n}" for n in range(2000)], "other": range(2000), "open": range(2000)})


class Kms(pe.KmsClient):  # type: ignore[misc]
    """A key service that does not encrypt keys, and remembers them by the name of their master key."""

    def __init__(self, seen: dict[str, bytes]) -> None:
        super().__init__()
        self.seen = seen

    def wrap_key(self, key: bytes, name: str) -> bytes:
        self.seen[name] = key
        return key.hex().encode()

    def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
        # pyarrow passes text, parsieve passes bytes.
        return bytes.fromhex(wrapped if isinstance(wrapped, str) else wrapped.decode())


def encrypted(path: Path, table: pa.Table = TABLE, double_wrapping: bool = False, **options: Any) -> dict[str, bytes]:
    """Write a table with random keys, and return the keys by the name of their master key."""
    seen: dict[str, bytes] = {}
    config = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"one": ["secret"], "two": ["other"]},
        double_wrapping=double_wrapping,
        **options,
    )
    properties = pe.CryptoFactory(lambda _: Kms(seen)).file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(table, path, row_group_size=1000, encryption_properties=properties)
    return seen
