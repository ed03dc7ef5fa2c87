"""Objects of a store: replaced only with `upload=True`, and only if they did not change meanwhile."""

import hashlib
from typing import Any

import fsspec
import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

NAME = "lake/t.parquet"


@pytest.fixture
def store() -> obstore.store.MemoryStore:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(3000)}), sink, row_group_size=1000)
    store = obstore.store.MemoryStore()
    store.put(NAME, sink.getvalue().to_pybytes())
    return store


def content(store: Any, name: str = NAME) -> bytes:
    return bytes(store.get(name).bytes())


def test_an_object_is_replaced_only_with_upload(store: obstore.store.MemoryStore) -> None:
    old = content(store)
    with pytest.raises(ps.UnsupportedError, match="upload=True"):
        ps.add_filters((store, NAME), columns="id")
    report = ps.add_filters((store, NAME), columns="id", upload=True)
    assert (report.path, report.written, len(report.added)) == (NAME, True, 3)
    new = content(store)
    assert (report.bytes_before, report.bytes_after) == (len(old), len(new))
    assert ps.open_filters((store, NAME)).might_contain({"id": 5}) == [True, False, False]
    assert pq.read_table(pa.BufferReader(new)).equals(pq.read_table(pa.BufferReader(old)))
    assert not ps.add_filters((store, NAME), columns="id", existing="keep", upload=True).written
    assert not ps.drop_filters((store, NAME), upload=True, dry_run=True).written
    assert content(store) == new
    assert ps.drop_filters((store, NAME), upload=True).written
    assert ps.open_filters((store, NAME)).ranges() == []


def test_a_concurrent_upload_is_not_overwritten(store: obstore.store.MemoryStore) -> None:
    class Raced:
        """The same store, with a concurrent upload right before ours."""

        def put(self, *arguments: Any, **options: Any) -> Any:
            store.put(NAME, b"another")
            return store.put(*arguments, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    with pytest.raises(ps.ConflictError, match="nothing was uploaded"):
        ps.add_filters((Raced(), NAME), columns="id", upload=True)
    assert content(store) == b"another"


def test_an_object_that_is_replaced_and_restored_keeps_its_rows(store: obstore.store.MemoryStore) -> None:
    old, other = content(store), pa.BufferOutputStream()
    pq.write_table(pa.table({"id": range(5000, 8000)}), other)

    class Hashing:
        """The same store with ETags that depend on the bytes only, in which the object is replaced for a while."""

        heads = 0

        def _tag(self) -> str:
            return hashlib.md5(content(store)).hexdigest()

        def head(self, name: str) -> Any:
            self.heads += 1
            if self.heads == 2:
                store.put(NAME, other.getvalue().to_pybytes())
            return {**store.head(name), "e_tag": self._tag()}

        def get(self, name: str, *, options: dict[str, Any]) -> Any:
            assert options["if_match"] == self._tag()
            return store.get(name, options={"range": options["range"]})

        def put(self, name: str, data: Any, *, mode: dict[str, Any], use_multipart: bool) -> None:
            store.put(NAME, old)
            assert mode["e_tag"] == self._tag()
            store.put(name, data)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    with pytest.raises(ps.ConflictError, match="nothing was uploaded"):
        ps.add_filters((Hashing(), NAME), columns="id", upload=True)


def test_dest_writes_another_object(store: obstore.store.MemoryStore) -> None:
    old = content(store)
    report = ps.add_filters((store, NAME), (store, "lake/new.parquet"), "id", upload=True)
    assert report.path == "lake/new.parquet"
    assert content(store) == old
    assert len(ps.open_filters((store, "lake/new.parquet")).ranges()) == 3
    with pytest.raises(FileExistsError):
        ps.drop_filters((store, NAME), (store, "lake/new.parquet"), upload=True)


def test_an_object_that_appears_at_dest_is_kept(store: obstore.store.MemoryStore) -> None:
    class Racing:
        """The same store, in which another process writes to `dest` just before the upload."""

        def put(self, name: str, data: Any, **options: Any) -> None:
            store.put(name, b"another")
            store.put(name, data, **options)

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

    with pytest.raises(FileExistsError, match=r"new\.parquet exists"):
        ps.add_filters((store, NAME), (Racing(), "new.parquet"), "id", upload=True)
    assert content(store, "new.parquet") == b"another"


def test_an_object_that_is_replaced_while_it_is_read_is_a_conflict(store: obstore.store.MemoryStore) -> None:
    ps.add_filters((store, NAME), columns="id", fpp=1e-9, upload=True)
    data = content(store)
    sink = pa.BufferOutputStream()
    random = [n * 7919 % 1_000_003 for n in range(200_000)]
    pq.write_table(pa.table({"id": random}), sink, row_group_size=50_000, bloom_filter_options={"id": {"ndv": 50_000}})
    store.put(NAME, sink.getvalue().to_pybytes())
    filters = ps.open_filters((store, NAME))
    store.put(NAME, data)
    with pytest.raises(ps.ConflictError, match="open it again"):
        filters.filter(0, "id")


def test_sources_that_cannot_be_uploaded_are_errors(store: obstore.store.MemoryStore, tmp_path: Any) -> None:
    with pytest.raises(ps.UnsupportedError, match="obstore"):
        ps.add_filters((fsspec.filesystem("memory"), NAME), columns="id", upload=True)
    with pytest.raises(ValueError, match="needs a URI"):
        ps.add_filters(tmp_path / "t.parquet", columns="id", upload=True)
    (tmp_path / "t.parquet").write_bytes(content(store))
    with pytest.raises(ps.UnsupportedError, match="condition"):
        ps.add_filters((obstore.store.LocalStore(str(tmp_path)), "t.parquet"), columns="id", upload=True)
    assert (tmp_path / "t.parquet").read_bytes() == content(store)
    store.put("no.parquet", b"not a Parquet file")
    with pytest.raises(ps.FormatError):
        ps.add_filters((store, "no.parquet"), upload=True)


def test_objects_of_tables_are_refused(store: obstore.store.MemoryStore) -> None:
    old = content(store)
    marks = {
        "d/_delta_log/0.json": "Delta",
        "h/.hoodie/hoodie.properties": "Hudi",
        "i/metadata/v1.metadata.json": "Iceberg",
    }
    for mark, kind in marks.items():
        name = f"{mark[0]}/day=1/t.parquet"
        store.put(name, old)
        store.put(mark, b"{}")
        for dest in (None, (store, f"{mark[0]}/new.parquet")):
            with pytest.raises(ps.UnsupportedError, match=f"belongs to the {kind} table {mark[0]}"):
                ps.add_filters((store, name), dest, columns="id", upload=True)
        with pytest.raises(ps.UnsupportedError, match=f"belongs to the {kind} table {mark[0]}"):
            ps.drop_filters((store, name), upload=True)
        assert content(store, name) == old
    assert ps.add_filters((store, "d/day=1/t.parquet"), (store, "copy"), columns="id", upload=True).written
    store.put("lake/metadata/notes.txt", b"not of Iceberg")
    assert ps.add_filters((store, NAME), columns="id", upload=True).written


def test_attributes_of_the_object_are_kept(store: obstore.store.MemoryStore) -> None:
    attributes = {"Content-Type": "application/vnd.apache.parquet", "Cache-Control": "no-store", "owner": "me"}
    store.put(NAME, content(store), attributes=attributes)
    ps.add_filters((store, NAME), (store, "copy"), columns="id", upload=True)
    ps.add_filters((store, NAME), columns="id", upload=True)
    assert store.get(NAME).attributes == store.get("copy").attributes == attributes
