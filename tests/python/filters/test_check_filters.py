"""Check filters against the data."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps


def test_good_filters_have_no_findings(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(5000), "s": [f"n{n % 9}" for n in range(5000)]}), path, row_group_size=1000)
    ps.add_filters(path, columns=["id", "s"])
    assert ps.check_filters(path) == []


def test_a_filter_with_missing_bits_is_reported() -> None:
    file = io.BytesIO()
    options = {"use_dictionary": False, "bloom_filter_options": {"id": {"ndv": 100}}}
    pq.write_table(pa.table({"id": range(100)}), file, **options)
    data = bytearray(file.getvalue())
    ((_, _, offset, length),) = ps.open_filters(data).ranges()
    assert length is not None
    data[offset + length - 64 : offset + length] = bytes(64)
    (finding,) = ps.check_filters(data)
    assert (finding.row_group, finding.column, finding.kind) == (0, "id", "false negatives")
    data[offset + length - 64 : offset + length] = b"\xff" * 64
    assert [one.kind for one in ps.check_filters(data)] == ["useless"]
    data[offset] = 0
    assert [one.kind for one in ps.check_filters(data)] == ["unreadable"]


def test_a_full_filter_is_reported_as_useless() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": range(10_000)}), file, bloom_filter_options={"id": {"ndv": 10}})
    assert [one.kind for one in ps.check_filters(file)] == ["useless"]
