"""Filters of files that pyarrow encrypted: they are encrypted too, and need the keys."""

import base64
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import parsieve as ps
from parsieve.cli import main

TABLE = pa.table({"secret": [f"secret {n}" for n in range(2000)], "open": range(2000), "other": range(2000)})


class Kms(pe.KmsClient):  # type: ignore[misc]
    """A KMS without encryption, which records the file's keys by the names of the master keys."""

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
def test_filters_of_encrypted_columns_are_encrypted(tmp_path: Path, plaintext_footer: bool, algorithm: str) -> None:
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
            assert bits[:32] not in after, "the filter of an encrypted column is not stored in plaintext"
    with pytest.raises(ps.DecryptionError):
        ps.drop_filters(path, encryption=some)
    assert len(ps.drop_filters(path, encryption=keys).dropped) == 4
    assert read(path, factory).equals(TABLE)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_columns_without_a_key_are_findings(tmp_path: Path, plaintext_footer: bool) -> None:
    path = tmp_path / "t.parquet"
    _, seen = write(path, plaintext_footer=plaintext_footer)
    keys = ps.FileKeys(seen["footer"], {"secret": seen["one"], "other": seen["two"]})
    some = ps.FileKeys(seen["footer"], {"other": seen["two"]})
    ps.add_filters(path, columns=["secret", "other", "open"], encryption=keys)
    for encryption, hidden in ((keys, set()), (some, {"secret"}), (ps.FileKeys(seen["footer"]), {"secret", "other"})):
        findings = ps.check_filters(path, encryption=encryption)
        chunks = {(row_group, column) for row_group in range(2) for column in hidden}
        assert {(finding.row_group, finding.column) for finding in findings} == chunks
        assert all(finding.kind == "unreadable" and "key" in finding.text for finding in findings)
    # Without filters, nothing is known about them either.
    ps.drop_filters(path, encryption=keys)
    assert len(ps.check_filters(path, encryption=some)) == 2


REAL = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing"
SEALED = REAL / "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
KEYS = {
    "footer_key": b"0123456789012345",
    "column_keys": {"double_field": b"1234567890123450", "float_field": b"1234567890123451"},
}


@pytest.mark.skipif(not SEALED.exists(), reason="the files of apache/parquet-testing are not on this machine")
@pytest.mark.parametrize("drop", [True, False])
def test_a_plaintext_filter_of_an_encrypted_column_is_wiped(tmp_path: Path, drop: bool) -> None:
    path = tmp_path / "t.parquet"
    data = bytearray(SEALED.read_bytes())
    # An unknown field makes the header longer, so that the plaintext filter is as long as the encrypted one.
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


@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("double_wrapping", [False, True])
def test_keys_are_unwrapped_by_a_kms(tmp_path: Path, plaintext_footer: bool, double_wrapping: bool) -> None:
    path = tmp_path / "t.parquet"
    seen: dict[str, bytes] = {}
    factory = pe.CryptoFactory(lambda _: Kms(seen))
    config = pe.EncryptionConfiguration(
        footer_key="footer",
        column_keys={"one": ["secret"], "two": ["other"]},
        double_wrapping=double_wrapping,
        plaintext_footer=plaintext_footer,
    )
    connection = pe.KmsConnectionConfig()
    properties = factory.file_encryption_properties(connection, config)
    pq.write_table(TABLE, path, row_group_size=1000, encryption_properties=properties)

    asked: list[str] = []

    class Counting(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            asked.append(name)
            return super().unwrap_key(wrapped, name)

    keys = ps.FileKeys.from_kms(path, Counting(seen))
    assert repr(keys) == "<parsieve.FileKeys: footer, other, secret>"
    assert sorted(asked) == ["footer", "one", "two"], "the KMS is asked for each key only once"
    report = ps.add_filters(path, columns=["secret", "other", "open"], encryption=keys)
    assert len(report.added) == 6
    assert ps.check_filters(path, encryption=keys) == []
    assert read(path, factory).equals(TABLE)
    again = ps.FileKeys.from_kms(str(path), lambda config: Kms(seen), connection)
    assert ps.open_filters(path, again).might_contain({"secret": "secret 5"}) == [True, False]

    class Liar(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            return b"0123456789012345"

    with pytest.raises(ps.DecryptionError):
        ps.open_filters(path, ps.FileKeys.from_kms(path, Liar(seen))).filter(0, "secret")
    with pytest.raises(TypeError, match="unwrap_key"):
        ps.FileKeys.from_kms(path, 5)


def test_key_metadata_without_usable_key_material_is_an_error(tmp_path: Path) -> None:
    from parsieve.filters import kms

    for material in (b"", b"name of a key", b"[]", b"[" * 200_000, b'{"keyMaterialType": "PKMT9"}'):
        with pytest.raises(ps.UnsupportedError, match="no key material of a KMS"):
            kms.Unwrapper(Kms({})).key(material, "the footer")
    with pytest.raises(ps.UnsupportedError, match="separate file"):
        kms.Unwrapper(Kms({})).key(b'{"keyMaterialType": "PKMT1", "internalStorage": false}', "the footer")
    with pytest.raises(ps.FormatError, match="masterKeyID"):
        kms.Unwrapper(Kms({})).key(b'{"keyMaterialType": "PKMT1"}', "the footer")
    fields = {"keyMaterialType": "PKMT1", "doubleWrapping": True, "masterKeyID": "one", "wrappedKEK": bytes(16).hex()}
    for text in ("a", "\u00e9"):
        material = json.dumps({**fields, "keyEncryptionKeyID": "", "wrappedDEK": text}).encode()
        with pytest.raises(ps.FormatError, match="the key material of the footer is not valid base64"):
            kms.Unwrapper(Kms({})).key(material, "the footer")
    pq.write_table(TABLE, tmp_path / "plain.parquet")
    assert repr(ps.FileKeys.from_kms(tmp_path / "plain.parquet", Kms({}))) == "<parsieve.FileKeys: none>"


def test_keys_on_the_command_line_come_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, keys = tmp_path / "t.parquet", tmp_path / "keys.json"
    _, seen = write(path)
    one = base64.b64encode(seen["one"]).decode()
    keys.write_text(
        json.dumps({"footer_key": seen["footer"].hex(), "column_keys": {"secret": one, "other": seen["two"].hex()}})
    )
    keys.chmod(0o600)
    assert main(["add", str(path), "-c", "secret", "--key-file", str(keys)]) == 0
    assert main(["check", str(path), "--key-file", str(keys)]) == 0
    assert main(["inspect", str(path), "--key-file", str(keys)]) == 0
    assert main(["probe", str(path), "secret", "nobody", "--key-file", str(keys)]) == 1
    assert main(["drop", str(path), "--key-file", str(keys)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["inspect", str(path)]) == 2
    keys.chmod(0o644)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["inspect", str(path), "--key-file", str(keys)]) == 0
    assert "chmod 600" in capsys.readouterr().err
    keys.chmod(0o600)
    for wrong in (
        "{",
        '{"footer_key": "geheim!"}',
        '{"footer_key": "abcd"}',
        '{"key": 1}',
        "[]",
        '{"column_keys": [1]}',
    ):
        keys.write_text(wrong)
        assert main(["inspect", str(path), "--key-file", str(keys)]) == 2
        said = capsys.readouterr().err
        assert "geheim" not in said
        assert "abcd" not in said


@pytest.mark.parametrize("double_wrapping", [False, True])
def test_clients_get_wrapped_keys_as_text(tmp_path: Path, double_wrapping: bool) -> None:
    """pyarrow passes text, so clients send it as JSON."""

    class Remote(pe.KmsClient):  # type: ignore[misc]
        def wrap_key(self, key: bytes, name: str) -> str:
            return key.hex()

        def unwrap_key(self, wrapped: str, name: str) -> bytes:
            return bytes.fromhex(json.loads(json.dumps({"ciphertext": wrapped}))["ciphertext"])

    path, factory = tmp_path / "t.parquet", pe.CryptoFactory(lambda _: Remote())
    config = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"one": ["secret"]}, double_wrapping=double_wrapping
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(TABLE, path, encryption_properties=properties)
    assert read(path, factory).equals(TABLE)
    assert repr(ps.FileKeys.from_kms(path, Remote())) == "<parsieve.FileKeys: footer, secret>"


def test_wrong_keys_of_a_kms_are_named(tmp_path: Path) -> None:
    class Wrong(Kms):
        key = bytes(16)

        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            return self.key if name == "one" else super().unwrap_key(wrapped, name)

    path, seen = tmp_path / "t.parquet", dict[str, bytes]()
    config = pe.EncryptionConfiguration(footer_key="footer", column_keys={"one": ["secret"]}, double_wrapping=True)
    properties = pe.CryptoFactory(lambda _: Kms(seen)).file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(TABLE, path, encryption_properties=properties)
    client = Wrong(seen)
    with pytest.raises(ps.DecryptionError, match=r"the key of column 'secret' is not wrapped with the key .* 'one'"):
        ps.FileKeys.from_kms(path, client)
    client.key = b"short"
    with pytest.raises(ps.DecryptionError, match="a key of 5 bytes for 'one', the master key of column 'secret'"):
        ps.FileKeys.from_kms(path, client)
    client.key = seen["one"]
    assert "secret" in repr(ps.FileKeys.from_kms(path, client))
