"""A small encrypted file of pyarrow and its keys, for the tests with other readers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

TABLE = pa.table({"secret": [f"secret {n}" for n in range(2000)], "other": range(2000), "open": range(2000)})


class Kms(pe.KmsClient):  # type: ignore[misc]
    """Hides nothing, and remembers the keys of the file by the names of its master keys."""

    def __init__(self, seen: dict[str, bytes]) -> None:
        super().__init__()
        self.seen = seen

    def wrap_key(self, key: bytes, name: str) -> bytes:
        self.seen[name] = key
        return key.hex().encode()

    def unwrap_key(self, wrapped: bytes, name: str) -> bytes:
        return bytes.fromhex(wrapped.decode())


def encrypted(path: Path, **options: Any) -> dict[str, bytes]:
    """Write the table with random keys; the result is the keys."""
    seen: dict[str, bytes] = {}
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"one": ["secret"], "two": ["other"]}, double_wrapping=False, **options
    )
    properties = pe.CryptoFactory(lambda _: Kms(seen)).file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(TABLE, path, row_group_size=1000, encryption_properties=properties)
    return seen
