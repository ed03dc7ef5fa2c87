"""Tables of each format in an object store: the options of the format's library, and odd addresses."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.hudi_tables import HudiTable
from support.s3_server import s3_server

import parsieve as ps
from parsieve.io.object_store import store_at

pytest.importorskip("obstore")


def contents(folder: Path, name: str) -> dict[str, bytes]:
    """Return the files of a folder as the objects of a bucket."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {f"{name}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in files}


def check(source: Any, options: dict[str, str] | None) -> None:
    """Check that a table has the rows 1 and 2, and that its index can be built, read and dropped."""
    table = ps.open_table(source, storage_options=options)
    assert sorted(table.plan().to_arrow()["id"].to_pylist()) == [1, 2]
    table.build_index("id", "sieve", progress=False)
    assert "sieve" in ps.open_table(source, storage_options=options).index_kinds().values()
    assert ps.open_table(source, storage_options=options).plan("id = 2").to_arrow()["id"].to_pylist() == [2]
    table.drop_index()


def test_a_delta_table_with_options_for_writers(tmp_path: Path) -> None:
    """deltalake has options that obstore does not know, and obstore refuses these."""
    write_deltalake(str(tmp_path), pa.table({"id": [1, 2]}))
    with s3_server(contents(tmp_path, "t")) as options:
        options |= {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "max_retries": "2", "backoff_config.base": "2"}
        check("s3://bucket/t", options)
        check(DeltaTable("s3://bucket/t", storage_options=options), None)
        with pytest.raises(ValueError, match="'aws_endpiont'"):
            ps.open_table("s3://bucket/t", storage_options={**options, "aws_endpiont": "x"})


def test_a_hudi_table_with_options_of_hudi(tmp_path: Path) -> None:
    pytest.importorskip("hudi")
    table = HudiTable(tmp_path, pa.schema([("id", pa.int64())]))
    table.commit({"g0-0": pa.table({"id": [1, 2]})})
    with s3_server(contents(tmp_path, "t")) as options:
        also: dict[str, Any] = {"hoodie.read.listing.parallelism": "2", "aws_allow_http": True}
        check("s3://bucket/t", options | also)


def test_an_iceberg_table_with_options_of_pyiceberg(tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    from pyiceberg.table import StaticTable

    with s3_server({}) as options:
        names = {"endpoint": "aws_endpoint", "access-key-id": "aws_access_key_id", "region": "aws_region"}
        names["secret-access-key"] = "aws_secret_access_key"
        own = {f"s3.{name}": options[other] for name, other in names.items()}
        uri = f"sqlite:///{tmp_path}/catalog.db"
        catalog = sql.SqlCatalog("c", uri=uri, warehouse="s3://bucket/w", **own)
        catalog.create_namespace("n")
        rows = pa.table({"id": [1, 2]})
        table = catalog.create_table("n.t", rows.schema)
        table.append(rows)
        # The catalog's other properties are no options of a store.
        check(catalog.load_table("n.t"), None)
        own |= {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO", "s3.session-token": ""}
        check("s3://bucket/w/n/t", own)
        check(table.metadata_location, own)
        # obstore has no such option, and opens the index of a Table without it.
        own["s3.role-session-name"] = "me"
        with pytest.raises(
            ValueError, match=r"s3\.role-session-name of pyiceberg, open the table by pyiceberg's Table"
        ):
            ps.open_table("s3://bucket/w/n/t", storage_options=own)
        check(StaticTable.from_metadata(table.metadata_location, own), None)


def test_an_iceberg_table_whose_location_has_a_percent_sign(tmp_path: Path) -> None:
    """Its index was in the folder of another table, because libraries decode escapes in addresses."""
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    objects: dict[str, bytes] = {}
    with s3_server(objects) as options:
        own = {"s3.endpoint": options["aws_endpoint"], "s3.region": options["aws_region"]}
        own |= {"s3.access-key-id": "who", "s3.secret-access-key": "secret"}
        catalog = sql.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="s3://bucket/w", **own)
        catalog.create_namespace("n")
        for number, name in enumerate(("a b", "a%20b", "a%2520b")):
            table = catalog.create_table(f"n.t{number}", pa.schema({"id": pa.int64()}), f"s3://bucket/{name}")
            table.append(pa.table({"id": [number]}))
            opened = ps.open_table(table)
            opened.build_index("id", "sieve", progress=False)
            assert opened.plan(f"id = {number}").to_arrow().num_rows == 1
    indexed = {name.partition("/_parsieve/")[0] for name in objects if "/_parsieve/" in name}
    assert indexed == {"a b", "a%20b", "a%2520b"}


def test_characters_that_end_a_path_are_refused(tmp_path: Path) -> None:
    """obstore, pyarrow and hudi would open the table `t`."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t" / "f.parquet")
    with s3_server(contents(tmp_path / "t", "t")) as options:
        for uri in ("s3://bucket/t#2", "s3://bucket/t?2", f"file://{tmp_path}/t#2", f"file://{tmp_path}/t?2"):
            with pytest.raises(ValueError, match="write %3F for"):
                ps.open_table(uri, storage_options=options)


def test_escapes_in_an_address_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `hudi` decoded them again, and read the timeline of another table."""
    pytest.importorskip("hudi")
    objects: dict[str, bytes] = {}
    for number, name in enumerate(("t", "t a", "t%20a", "t#a", "t?a")):
        table = HudiTable(tmp_path / str(number), pa.schema([("id", pa.int64())]))
        table.commit({f"g{number}-0": pa.table({"id": [number]})})
        objects |= contents(table.folder, name)
    with s3_server(objects) as options:
        for name, value in options.items():
            monkeypatch.setenv(name.upper(), value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", options["aws_endpoint"])
        for number, name in enumerate(("t", "t%20a", "t%2520a", "t%23a", "t%3Fa")):
            opened = ps.open_table(f"s3://bucket/{name}")
            assert opened.plan().to_arrow()["id"].to_pylist() == [number]
            opened.build_index("id", "sieve", progress=False)
    indexed = {name.partition("/_parsieve/")[0] for name in objects if "/_parsieve/" in name}
    assert indexed == {"t", "t a", "t%20a", "t#a", "t?a"}


def test_a_single_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "f.parquet")
    (tmp_path / "g.data").write_bytes((tmp_path / "f.parquet").read_bytes())
    objects = contents(tmp_path, "t")
    with s3_server(objects) as options:
        table = ps.open_table("s3://bucket/t/f.parquet", storage_options=options)
        table.build_index("id", "sieve", progress=False)
        assert any(name.startswith("t/.parsieve/f.parquet/") for name in objects)
        for opened in (table, pickle.loads(pickle.dumps(table))):
            assert opened.plan("id = 2").files == []
            plan = opened.plan("id = 1")
            assert plan.files == ["s3://bucket/t/f.parquet"]
            assert plan.to_arrow()["id"].to_pylist() == [1]
        with pytest.raises(FileNotFoundError, match=r"pass a store of obstore and the path in it: \(store, path\)"):
            ps.open_table("s3://bucket/t/g.data", storage_options=options).plan()
        table = ps.open_table((store_at("s3://bucket", options), "t/g.data"))
        assert table.plan().to_arrow()["id"].to_pylist() == [1]


def test_a_folder_may_be_named_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "day=1" / "part-0.parquet")
    with s3_server(contents(tmp_path, "t.parquet")) as options:
        for address in ("s3://bucket/t.parquet", "s3://bucket/t.parquet/"):
            table = ps.open_table(address, storage_options=options)
            assert table.plan("id = 1").files == ["s3://bucket/t.parquet/day=1/part-0.parquet"]
            assert table.plan().to_arrow().to_pylist() == [{"id": 1, "day": 1}]
