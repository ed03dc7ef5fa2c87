"""Encrypted files of pyarrow get encrypted filters, and only with their keys."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import parsieve as ps

TABLE = pa.table({"secret": [f"secret {n}" for n in range(2000)], "open": range(2000), "other": range(2000)})


class Kms(pe.KmsClient):  # type: ignore[misc]
    """Hides nothing, and remembers the keys of the file by the names of its master keys."""

    seen: dict[str, bytes]

    def __init__(self, seen: dict[str, bytes]) -> None:
        super().__init__()
        self.seen = seen

    def wrap_key(self, key: bytes, name: str) -> bytes:
        self.seen[name] = key
        return key.hex().encode()

    def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
        return bytes.fromhex(wrapped.decode() if isinstance(wrapped, bytes) else wrapped)


def write(path: Path, **options: Any) -> tuple[pe.CryptoFactory, dict[str, bytes]]:
    seen: dict[str, bytes] = {}
    factory = pe.CryptoFactory(lambda _: Kms(seen))
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"one": ["secret"], "two": ["other"]}, double_wrapping=False, **options
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(TABLE, path, row_group_size=1000, encryption_properties=properties)
    return factory, seen


def read(path: Path, factory: pe.CryptoFactory) -> Any:
    properties = factory.file_decryption_properties(pe.KmsConnectionConfig())
    return pq.ParquetFile(path, decryption_properties=properties).read()


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
def test_filters_of_encrypted_columns(tmp_path: Path, plaintext_footer: bool, algorithm: str) -> None:
    path = tmp_path / "t.parquet"
    factory, seen = write(path, plaintext_footer=plaintext_footer, encryption_algorithm=algorithm)
    content, rows = path.read_bytes(), read(path, factory)
    assert rows.equals(TABLE)
    keys = ps.FileKeys(seen["footer"], {"secret": seen["one"], "other": seen["two"]})
    some = ps.FileKeys(seen["footer"], {"secret": seen["one"]})

    for missing in (some, ps.FileKeys(seen["footer"]), None):
        with pytest.raises(ps.DecryptionError):
            ps.add_filters(path, columns=["secret", "open", "other"], encryption=missing)
    wrong = ps.FileKeys(seen["footer"], {"secret": bytes(16)})
    with pytest.raises(ps.DecryptionError):
        ps.add_filters(path, columns="secret", encryption=wrong)
    assert path.read_bytes() == content

    report = ps.add_filters(path, columns=["secret", "open"], encryption=some)
    assert len(report.added) == 4
    start = report.added[0].offset
    after = path.read_bytes()
    assert after[:start] == content[:start]
    assert read(path, factory).equals(TABLE)
    with ps.open_filters(path, keys) as filters:
        assert filters.might_contain({"secret": "secret 5"}) == [True, False]
        for number in range(2):
            part = TABLE.slice(1000 * number, 1000)
            for name in ("secret", "open"):
                assert filters.filter(number, name).check(part[name]).false_count == 0  # type: ignore[union-attr]
            bits = bytes(memoryview(filters.filter(number, "secret")))  # type: ignore[arg-type]
            assert bits[:32] not in after, "no plaintext of an encrypted column's filter"
    with pytest.raises(ps.DecryptionError):
        ps.drop_filters(path, encryption=some)
    assert len(ps.drop_filters(path, encryption=keys).dropped) == 4
    assert read(path, factory).equals(TABLE)


REAL = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing"
SEALED = REAL / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
KEYS = {
    "footer_key": b"0123456789012345",
    "column_keys": {"double_field": b"1234567890123450", "float_field": b"1234567890123451"},
}


@pytest.mark.skipif(not SEALED.exists(), reason="the files of apache/parquet-testing are not on this machine")
@pytest.mark.parametrize("drop", [True, False])
def test_a_plaintext_filter_of_an_encrypted_column_does_not_live_on(tmp_path: Path, drop: bool) -> None:
    path = tmp_path / "t.parquet"
    data = bytearray(SEALED.read_bytes())
    # A header that an unknown field stretches, so that a plain filter fills the place of the sealed one exactly.
    header = bytes.fromhex("1580221c1c00001c1c00001c1c000018") + b"\x12" + bytes(18) + b"\x00"
    data[29667 : 29667 + 2212] = header + b"\x5a" * 2176
    path.write_bytes(data)
    if drop:
        ps.drop_filters(path, columns="double_field", encryption=KEYS)
    else:
        ps.add_filters(path, columns="double_field", encryption=KEYS)
    after = path.read_bytes()
    assert after[29667 : 29667 + 2212] == bytes(2212)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert after[:29667] == data[:29667]
    assert after[29667 + 2212 : start] == data[29667 + 2212 : start]
    with ps.open_filters(path, KEYS) as filters:
        assert (filters.filter(0, "double_field") is None) is drop
        for number in range(0, 2000, 100):
            assert filters.might_contain({"double_field": number + 0.5, "float_field": number + 0.25}) == [True]


@pytest.mark.skipif(not SEALED.exists(), reason="the files of apache/parquet-testing are not on this machine")
@pytest.mark.parametrize("name", ["encrypt_columns_plaintext_footer", "uniform_encryption"])
def test_real_encrypted_files_get_filters(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes((REAL / "no-bloom" / f"{name}.parquet.encrypted").read_bytes())
    report = ps.add_filters(path, columns=["double_field", "int64_field"], encryption=KEYS)
    assert {added.column for added in report.added} == {"double_field", "int64_field"}
    assert ps.check_filters(path, encryption=KEYS) == []
    assert ps.drop_filters(path, encryption=KEYS).dropped
