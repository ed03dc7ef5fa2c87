"""Plain and encrypted files of apache/parquet-testing; GROUND_TRUTH.md in their folder describes the content."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import parsieve as ps

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing"
LINES = "Hello,This is,a,test,How,are you,doing ,today,the quick,brown fox,jumps,over,the lazy,dog".split(",")
ABSENT = ["Hello_Not_Exists", "", "hello"]
SEALED = "encrypt_columns_and_footer_bloom_filter.parquet.encrypted"
KEYS: dict[str, Any] = {
    "footer_key": b"0123456789012345",
    "column_keys": {"double_field": b"1234567890123450", "float_field": b"1234567890123451"},
}


def path(name: str) -> Path:
    found = FOLDER / name
    if not found.exists():
        pytest.skip(f"{name} of apache/parquet-testing is not on this machine ({FOLDER})")
    return found


@pytest.mark.parametrize(
    ("name", "offset", "length", "num_bytes"),
    [
        ("data_index_bloom_encoding_stats.parquet", 192, None, 1024),
        ("data_index_bloom_encoding_with_length.parquet", 253, 2064, 2048),
    ],
)
def test_filters_before_and_after_the_page_index(name: str, offset: int, length: int | None, num_bytes: int) -> None:
    with ps.open_filters(path(name)) as filters:
        assert filters.columns == ["String"]
        assert filters.ranges() == [(0, "String", offset, length)]
        assert (filters.num_row_groups, filters.num_rows, filters.encrypted) == (1, [14], False)
        filter = filters.filter(0, "String")
        assert filter is not None
        assert filter.num_bytes == num_bytes
        assert filter.column_type == filters.column_type("String") == "BYTE_ARRAY bytes"
        assert filter.check(pa.array(LINES + ABSENT)).to_pylist() == [True] * 14 + [False] * 3
        for line in LINES:
            assert filters.might_contain({"String": line}) == [True]
            assert filters.might_contain({("String",): [*ABSENT, line.encode()]}) == [True]
        for line in ABSENT:
            assert filters.might_contain({"String": line}) == [False]
        assert filters.might_contain({"String": ABSENT}) == [False]
        assert filters.might_contain({"String": pa.array(ABSENT)}) == [False]


def test_filters_that_parquet_java_encrypted_are_read() -> None:
    with ps.open_filters(path(SEALED), decryption=KEYS) as filters:
        assert filters.encrypted
        assert filters.ranges() == [(0, "double_field", 29667, 2212), (0, "float_field", 31879, 2212)]
        doubles, floats = filters.filter(0, "double_field"), filters.filter(0, "float_field")
        assert doubles is not None
        assert floats is not None
        assert doubles.check(pa.array([i + 0.5 for i in range(2000)])).false_count == 0
        assert floats.check(pa.array([i + 0.25 for i in range(2000)], pa.float32())).false_count == 0
        for i in range(0, 2000, 50):
            assert filters.might_contain({"double_field": i + 0.5, "float_field": [0, i + 0.25]}) == [True]
        assert filters.might_contain({"double_field": 0}) == [False]
        assert filters.might_contain({"float_field": -0.0}) == [False]
        assert filters.might_contain({"float_field": 0.25, "double_field": [0.0]}) == [False]
        assert filters.filter(0, "int32_field") is None
        assert filters.might_contain({"int32_field": -1}) == [True]


def test_a_wrong_or_missing_key_is_a_decryption_error() -> None:
    file, wrong = path(SEALED), b"a wrong key ...."
    for keys in [
        None,
        {},
        {"footer_key": wrong},
        {**KEYS, "column_keys": {"double_field": wrong}},
        {**KEYS, "aad_prefix": b"none was used"},
    ]:
        with pytest.raises(ps.DecryptionError) as error:
            ps.open_filters(file, decryption=keys)
        assert "wrong key" not in str(error.value)
    with pytest.raises(ValueError, match="16, 24 or 32"):
        ps.FileKeys(footer_key=b"short")
    with pytest.raises(TypeError):
        ps.open_filters(file, decryption={"footer": b"0123456789012345"})


def test_columns_without_a_key_cannot_be_read_and_exclude_nothing() -> None:
    keys = ps.FileKeys(KEYS["footer_key"], {("double_field",): KEYS["column_keys"]["double_field"]})
    assert repr(keys) == "<parsieve.FileKeys: footer, double_field>"
    with ps.open_filters(path(SEALED), keys) as filters:
        assert filters.ranges() == [(0, "double_field", 29667, 2212)]
        assert filters.might_contain({"double_field": 0.0}) == [False]
        with pytest.raises(ps.DecryptionError, match="float_field"):
            filters.filter(0, "float_field")
        assert filters.might_contain({"float_field": 0.0}) == [True]


def test_every_changed_byte_of_an_encrypted_filter_is_detected() -> None:
    file = bytearray(path(SEALED).read_bytes())
    for at in [*range(29667, 29667 + 140), *range(29667 + 140, 29667 + 2212, 37), 29667 + 2211]:
        file[at] ^= 1
        filters = ps.open_filters(bytes(file), KEYS)
        with pytest.raises(ps.ParsieveError):
            filters.filter(0, "double_field")
        assert filters.might_contain({"double_field": 0.0}) == [True]
        file[at] ^= 1


def test_a_plaintext_filter_of_an_encrypted_column_is_reported_and_not_trusted() -> None:
    file = bytearray(path(SEALED).read_bytes())
    # An unknown field makes the header longer, so that the empty filter is as long as the encrypted one.
    header = bytes.fromhex("1580221c1c00001c1c00001c1c000018") + b"\x12" + bytes(18) + b"\x00"
    file[29667 : 29667 + 2212] = header + bytes(2176)
    filters = ps.open_filters(file, KEYS)
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        filters.filter(0, "double_field")
    with pytest.warns(UserWarning, match="not trusted: the filters of double_field"):
        assert filters.might_contain({"double_field": 0.5}) == [True]


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("no-bloom/*.parquet")) or ["none"])
def test_files_without_filters_exclude_nothing(name: str) -> None:
    with ps.open_filters(path(f"no-bloom/{name}")) as filters:
        assert filters.ranges() == []
        assert filters.requests == 1
        for column in filters.columns:
            for row_group in range(filters.num_row_groups):
                assert filters.filter(row_group, column) is None
            for value in (1, "x", 1.5, None, [], [None]):
                expect = value != []
                assert filters.might_contain({column: value}) == [expect] * filters.num_row_groups
        assert filters.requests == 1


def test_plaintext_footers_and_uniform_encryption() -> None:
    plain = path("no-bloom/encrypt_columns_plaintext_footer.parquet.encrypted")
    for keys in (None, KEYS):
        with ps.open_filters(plain, keys) as filters:
            assert filters.encrypted
            assert filters.might_contain({"double_field": 0.0}) == [True] * filters.num_row_groups
            assert filters.filter(0, "int32_field") is None
            if keys is None:
                with pytest.raises(ps.DecryptionError):
                    filters.filter(0, "double_field")
            else:
                assert filters.filter(0, "double_field") is None
    uniform = path("no-bloom/uniform_encryption.parquet.encrypted")
    with ps.open_filters(uniform, {"footer_key": KEYS["footer_key"]}) as filters:
        assert filters.filter(0, "double_field") is None
