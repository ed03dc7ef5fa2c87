"""parquet-java decrypts the filters that parsieve adds to encrypted files."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.encrypted_files import TABLE, encrypted
from support.parquet_java import java_bits, java_filters

import parsieve as ps

pytestmark = pytest.mark.spark


def java_keys(spark: Any, footer: bytes, columns: dict[str, bytes]) -> Any:
    java = spark._jvm
    crypto = java.org.apache.parquet.crypto
    by_path = java.java.util.HashMap()
    for name, key in columns.items():
        path = java.org.apache.parquet.hadoop.metadata.ColumnPath.fromDotString(name)
        by_path.put(path, crypto.ColumnDecryptionProperties.builder(path).withKey(key).build())
    return (
        crypto.FileDecryptionProperties.builder()
        .withFooterKey(footer)
        .withColumnKeys(by_path)
        .withPlaintextFilesAllowed()
        .build()
    )


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
def test_parquet_java_decrypts_added_filters(
    spark: Any, tmp_path: Path, algorithm: str, plaintext_footer: bool, bits: int
) -> None:
    path = tmp_path / "t.parquet"
    seen = encrypted(path, encryption_algorithm=algorithm, plaintext_footer=plaintext_footer, data_key_length_bits=bits)
    keys: dict[Any, bytes] = {"secret": seen["one"], "other": seen["two"]}
    ours = ps.FileKeys(seen["footer"], keys)
    report = ps.add_filters(path, columns=["secret", "other"], encryption=ours)
    assert len(report.added) == 4
    read = list(java_filters(spark, path, java_keys(spark, seen["footer"], keys)))
    assert [(number, name) for number, name, _ in read] == [(n, name) for n in range(2) for name in keys]
    with ps.open_filters(path, ours) as filters:
        for number, name, theirs in read:
            filter = filters.filter(number, name)
            assert java_bits(spark, theirs) == bytes(memoryview(filter))  # type: ignore[arg-type]
            hashes = ps.hash_column(TABLE[name].slice(1000 * number, 1000)).cast(pa.int64(), safe=False)
            assert all(theirs.findHash(one) for one in hashes.to_pylist())


def test_parquet_java_refuses_another_key(spark: Any, tmp_path: Path) -> None:
    """This shows that the filters in the test above are really encrypted."""
    path = tmp_path / "t.parquet"
    seen = encrypted(path)
    ours = ps.FileKeys(seen["footer"], {"secret": seen["one"]})
    ps.add_filters(path, columns="secret", encryption=ours)
    with pytest.raises(Exception, match=r"(?i)tag mismatch|crypto|decrypt"):
        list(java_filters(spark, path, java_keys(spark, seen["footer"], {"secret": b"x" * len(seen["one"])})))
