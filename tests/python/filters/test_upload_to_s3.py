"""Objects of S3: which folders above an object are searched for a table."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.s3_server import s3_server

import parsieve as ps
from parsieve.filters.upload import _folders_above
from parsieve.io.object_store import store_at


@pytest.fixture
def data() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(1000)}), sink)
    return sink.getvalue()


@pytest.mark.parametrize("folder", ["t", "a b", "ü/c"])
def test_a_table_above_the_root_of_a_store_is_found(data: bytes, monkeypatch: Any, folder: str) -> None:
    bucket = {f"{folder}/data/f.parquet": data, f"{folder}/_delta_log/0.json": b"{}", "plain/f.parquet": data}
    with s3_server(bucket) as options:
        for name, value in options.items():
            monkeypatch.setenv(name.upper(), value)
        within = store_at(f"s3://bucket/{folder}/data", options)
        for source in (f"s3://bucket/{folder}/data/f.parquet", (within, "f.parquet")):
            with pytest.raises(ps.UnsupportedError, match=f"belongs to the Delta table .*{folder}, whose"):
                ps.add_filters(source, columns="id", upload=True)
        assert bucket[f"{folder}/data/f.parquet"] == data
        assert ps.add_filters("s3://bucket/plain/f.parquet", columns="id", upload=True).written
    assert len(bucket["plain/f.parquet"]) > len(data)


def test_a_folder_that_cannot_be_listed_is_named(data: bytes) -> None:
    bucket = {"mine/f.parquet": data}
    with s3_server(bucket, forbidden="_delta_log") as options:
        store = store_at("s3://bucket/mine", options)
        with pytest.raises(
            OSError, match=r"f\.parquet was not uploaded, .*: _delta_log in the root of the store cannot"
        ):
            ps.add_filters((store, "f.parquet"), columns="id", upload=True)
    assert bucket["mine/f.parquet"] == data


@pytest.mark.parametrize("dest", [None, "g.parquet"])
def test_an_upload_whose_answer_is_lost_has_succeeded(data: bytes, dest: str | None) -> None:
    """The client tries it again, and the object is no longer the one that was read."""
    bucket = {"f.parquet": data}
    with s3_server(bucket, failing=["f.parquet", "g.parquet"]) as options:
        store = store_at("s3://bucket", options)
        target = None if dest is None else (store, dest)
        report = ps.add_filters((store, "f.parquet"), columns="id", dest=target, upload=True)
    assert report.written
    assert len(bucket[dest or "f.parquet"]) > len(data)


@pytest.mark.parametrize(
    "root", ["https://a.blob.core.windows.net/container", "https://s3.eu-west-1.amazonaws.com/bucket"]
)
def test_nothing_above_a_bucket_or_container_is_opened(root: str) -> None:
    assert [name for name, _, _ in _folders_above(f"{root}/t/f.parquet")] == [f"{root}/t", root]
