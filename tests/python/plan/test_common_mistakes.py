"""Common mistakes of new users get an error or a hint that explains what to do instead."""

import datetime as dt
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs
from pyiceberg.catalog.sql import SqlCatalog
from support.aging import wait_until_old

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    events = tmp_path / "events"
    events.mkdir()
    for part in range(3):
        pq.write_table(pa.table({"id": range(part, 90, 3), "sku": ["a"] * 30}), events / f"{part}.parquet")
    return events


def test_globs_are_rejected(folder: Path, capsys: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"globs are not supported.*\*\.parquet"):
        ps.open_table(f"{folder}/*.parquet").plan("id = 7")
    assert main(["plan", f"{folder}/*.parquet", "id = 7"]) == 2
    assert "globs are not supported" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError) as caught:
        ps.open_table(folder / "none").plan("id = 7")
    assert "not followed" not in str(caught.value)
    assert caught.value.filename == str(folder / "none")


def test_lists_and_reversed_pairs_are_rejected_as_tables(folder: Path) -> None:
    with pytest.raises(TypeError, match=r"URI of a folder or of one file, a .* pair, .*, not list"):
        ps.open_table([str(folder / "0.parquet")])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must end with a path, not LocalFileSystem"):
        ps.open_table((str(folder), fs.LocalFileSystem()))


def test_the_error_for_another_file_in_the_folder_says_how_to_hide_it(folder: Path) -> None:
    (folder / "0-readme.txt").write_text("events of March\n")
    with pytest.raises(ps.FormatError, match=r"0-readme\.txt.*starts with _ or a dot: move this one"):
        ps.open_table(folder).plan("id = 7")
    (folder / "0-readme.txt").rename(folder / "0-readme.parquet")
    with pytest.raises(ps.FormatError) as caught:
        ps.open_table(folder).plan("id = 7")
    assert "move this file elsewhere" not in str(caught.value)


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[Path]:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema({"id": pa.int64()}), location=(tmp_path / "orders").as_uri())
    table.append(pa.table({"id": [1, 2]}))
    yield tmp_path / "orders"
    catalog.close()


def test_a_folder_inside_of_a_table_gets_a_warning(tmp_path: Path, iceberg: Path) -> None:
    delta = tmp_path / "delta"
    write_deltalake(delta, pa.table({"id": [1, 2], "day": [1, 2]}), partition_by=["day"])
    for kind, table, part in (("Delta", delta, delta / "day=1"), ("Iceberg", iceberg, iceberg / "data")):
        with pytest.warns(ps.ParsieveWarning, match=f"is a part of the {kind} table {table}, and may have") as caught:
            ps.open_table(part)
        assert caught[0].filename == __file__
        assert ps.open_table(part, format="parquet").format == "parquet"
        assert ps.open_table(table).format == kind.lower()


def test_the_error_for_metadata_of_iceberg_names_the_table(iceberg: Path) -> None:
    with pytest.raises(ps.FormatError, match=f"open the table {iceberg}$") as caught:
        ps.open_table(iceberg, format="parquet").plan("id = 1").to_arrow()
    assert "rename" not in str(caught.value)


def test_the_error_for_a_catalog_says_what_a_table_may_be() -> None:
    with pytest.raises(TypeError, match="a table that a catalog of pyiceberg has loaded, not object"):
        ps.open_table(object())  # type: ignore[arg-type]


def test_the_error_for_a_state_whose_files_are_gone_says_so(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1]}))
    write_deltalake(tmp_path, pa.table({"id": [2]}), mode="overwrite")
    DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(ps.ConflictError, match="as_of=, a cleanup such as VACUUM may have removed"):
        ps.open_table(tmp_path).plan("id = 1", as_of=0).to_arrow()


def test_the_error_for_keys_of_another_type_names_both_types(folder: Path) -> None:
    with pytest.raises(TypeError, match="key type string does not match column id of type int64"):
        ps.open_table(str(folder)).plan(keys={"id": pa.array(["x"])})


def test_keys_of_128_bits_are_rejected(folder: Path) -> None:
    table = ps.open_table(folder)
    keys = pl.Series("id", [7], dtype=pl.Int128)
    with pytest.raises(TypeError, match="keys of id are of type Int128, which pyarrow does not support; cast them"):
        table.plan(keys={"id": keys})
    with pytest.raises(TypeError, match="keys of id are of type Int128"):
        table.lookup("id", keys)
    with pytest.raises(ps.UnsupportedError, match="integers of 128 bits are not supported; cast the value to Int64"):
        table.plan(pl.col("id") == pl.lit(7, pl.Int128), on_unknown="error")


@pytest.mark.parametrize("method", ["lookup", "plan"])
def test_keys_of_a_struct_or_list_are_rejected(tmp_path: Path, method: str) -> None:
    values = {"s": pa.array([{"x": 1}]), "l": pa.array([[1]])}
    pq.write_table(pa.table(values), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    for name, keys in values.items():
        with pytest.raises(TypeError, match=f"{name} is of type .*; only columns of single values can be compared"):
            table.lookup(name, keys) if method == "lookup" else table.plan(keys={name: keys})
    # A field of the struct has single values.
    assert table.plan(keys={("s", "x"): [1]}).to_arrow().num_rows == 1


def test_keys_must_be_a_dict_of_columns(folder: Path) -> None:
    table = ps.open_table(folder)
    keys: Any
    for keys in (pa.table({"id": [7]}), [("id", 7)]):
        with pytest.raises(TypeError, match="keys must be a dict from names to columns"):
            table.plan(keys=keys)
    for keys in ({"id": 7}, {"sku": "abc"}, {"sku": b"abc"}):
        with pytest.raises(TypeError, match="an Arrow column or a list of values, not"):
            table.plan(keys=keys)
    assert str(table.plan(keys={"id": {7}})) == "<parsieve.Plan of id = 7: 3 of 3 files>"
    assert table.plan("id < 5", keys={}).to_arrow().num_rows == 5


def test_columns_must_be_a_list_of_names(folder: Path) -> None:
    table = ps.open_table(folder)
    columns: Any
    for columns, message in (
        ([1], "and 1 is not"),
        (["id", None], "and None is not"),
        ([["id"]], r"and \['id'\] is"),
        (1, "not 1"),
    ):
        for plan in (table.plan(), table.plan("id = 7"), table.plan("id = 7", order_by="id", limit=1)):
            with pytest.raises(TypeError, match=f"columns must be a list of names, {message}"):
                plan.to_arrow(columns)
        with pytest.raises(TypeError, match=f"columns must be a list of names, {message}"):
            table.lookup("id", [7], columns=columns)
    for columns in ("id", ("id",), {"id"}, pl.Series(["id"])):
        assert table.plan("id = 7").to_arrow(columns).to_pydict() == {"id": [7]}


def test_errors_about_arguments_of_a_wrong_type_name_the_argument(folder: Path) -> None:
    table, index = ps.open_table(folder), folder.parent / "index"
    wrong: Any = "1GB"
    work: Callable[[], Any]
    for work in (
        lambda: table.build_index("id", kind="sieve", memory=wrong),
        lambda: table.build_index("id", kind="bloom", memory=wrong),
        lambda: ps.open_table(folder, index_location=index).build_index("id", memory=wrong),
    ):
        with pytest.raises(TypeError, match="memory must be a number of bytes, such as 1 << 30, not '1GB'"):
            work()
    wrong = ZoneInfo("Europe/Madrid")
    for work in (
        lambda: table.plan("id = 7", timezone=wrong),
        lambda: table.plan(keys={"id": [7]}, timezone=wrong),
        lambda: table.lookup("id", [7], timezone=wrong),
        lambda: table.advise(queries=["id = 7"], timezone=wrong),
    ):
        with pytest.raises(TypeError, match=r"a time zone is a name such as 'Europe/Madrid'.* not zoneinfo"):
            work()
    wrong = 5
    for work in (
        lambda: table.build_index(wrong),
        lambda: table.compact_index(wrong),
        lambda: table.drop_index(wrong),
        lambda: table.advise(wrong),
    ):
        with pytest.raises(TypeError, match="columns must be a name, or a list of names, not 5"):
            work()
    with pytest.raises(TypeError, match=r'storage_options must be a dict such as \{"aws_region": .*, not int'):
        ps.open_table(folder, storage_options=wrong)
    with pytest.raises(TypeError, match=r"con must be a connection of DuckDB, such as .*, not 5"):
        table.plan("id = 7").to_duckdb(wrong)
    with pytest.raises(TypeError, match="spark must be a SparkSession, not 5"):
        table.plan("id = 7").to_spark(wrong)


def test_threads_must_be_a_number(folder: Path) -> None:
    plan = ps.open_table(folder).plan("id < 3")
    threads: Any
    for threads in ("a", 1.5):
        with pytest.raises(TypeError, match="threads must be an integer or None, not"):
            plan.to_arrow(threads=threads)
    with pytest.raises(ValueError, match="threads must be at least 1, not 0"):
        plan.to_arrow(threads=0)
    threads = np.int64(2)
    assert plan.to_arrow(threads=threads).num_rows == 3
    for threads in (1 << 62, 1 << 70):
        assert plan.to_arrow(threads=threads).num_rows == 3
        assert ps.open_table(folder).build_index("id", "sieve", threads=threads, progress=False).files == 3


@pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")
def test_the_repr_of_a_plan_mentions_ignored_predicates(folder: Path) -> None:
    table = ps.open_table(folder)
    assert repr(table.plan("id = 'x'")).endswith("3 of 3 files, part of the predicate is ignored, see explain()>")
    assert "ignored" not in repr(table.plan("id = 7"))


@pytest.mark.parametrize("where", ["WHERE id = 7", "SELECT * FROM t WHERE id = 7", "", "id = 7 LIMIT 3"])
def test_sql_statements_are_rejected_as_predicates(folder: Path, where: str) -> None:
    with pytest.raises(ValueError, match="write what follows WHERE"):
        ps.open_table(folder).plan(where)


@pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")
@pytest.mark.parametrize("where", ["id > abs(-7)", "id > CURRENT_DATE - 7"])
def test_explain_says_to_write_values_instead_of_functions(folder: Path, where: str) -> None:
    plan = ps.open_table(folder).plan(where)
    assert len(plan.files) == 3
    assert "write the value itself" in plan.explain()


@pytest.mark.parametrize("where", ["id = ?", "id = :id", "id IN ?"])
def test_placeholders_without_values_raise(folder: Path, where: str) -> None:
    with pytest.raises(ValueError, match="has 1 placeholder; pass the values as params="):
        ps.open_table(folder).plan(where)


def test_lists_as_parameters(folder: Path) -> None:
    table = ps.open_table(folder)
    expected = table.plan("id IN (7, 8)").to_arrow()
    assert expected.num_rows == 2
    assert table.plan("id IN ?", params=[[7, 8]]).to_arrow() == expected
    assert table.plan("id IN :ids", params={"ids": (7, 8)}).to_arrow() == expected
    assert table.plan("id NOT IN ?", params=[[7, 8]]).to_arrow() == table.plan("id NOT IN (7, 8)").to_arrow()
    with pytest.warns(ps.ParsieveWarning, match=r"the value of \? is a list; write IN \?"):
        table.plan("id IN (?)", params=[[7, 8]])
    with pytest.warns(ps.ParsieveWarning, match=r"the value of \? is not a list; for an Arrow column, pass keys="):
        table.plan("id IN ?", params=[pa.array([7, 8])])


@pytest.mark.parametrize("where", ["id IN (SELECT 7)", "id = (SELECT 7)", "EXISTS (SELECT 7)"])
def test_subqueries_are_not_supported(folder: Path, where: str) -> None:
    with pytest.warns(ps.ParsieveWarning, match="subqueries are not supported; read the keys first, and pass keys="):
        ps.open_table(folder).plan(where)


def test_a_stream_of_a_condition_that_is_not_understood_raises_at_once(folder: Path) -> None:
    plan = ps.open_table(folder).plan("length(sku) = 3", on_unknown="ignore")
    for read in (pa.table, pl.DataFrame):
        with pytest.raises(ps.UnsupportedError, match="is not understood"):
            read(plan)


def test_the_timezone_applies_to_keys(tmp_path: Path) -> None:
    hours = pa.array([0, 3_600_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": hours, "n": [0, 1]}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    for keys in ([dt.datetime(1970, 1, 1, 1)], ["1970-01-01 01:00:00"]):
        assert table.plan(keys={"at": keys}, timezone="Europe/Madrid").to_arrow()["n"].to_pylist() == [0]
        assert table.lookup("at", keys, timezone="Europe/Madrid").table["n"].to_pylist() == [0]
        assert table.plan(keys={"at": keys}, timezone="UTC").to_arrow()["n"].to_pylist() == [1]
        assert table.plan(keys={"at, n": [(keys[0], 0)]}, timezone="Europe/Madrid").to_arrow()["n"].to_pylist() == [0]
        for call in (lambda keys=keys: table.plan(keys={"at": keys}), lambda keys=keys: table.lookup("at", keys)):
            with pytest.raises(TypeError, match="or pass timezone="):
                call()
    with pytest.raises(ValueError, match="unknown time zone 'Madrid'"):
        table.lookup("at", keys, timezone="Madrid")


def test_a_dataset_names_the_file_that_it_cannot_contain(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64())}), tmp_path / "b.parquet")
    plan = ps.open_table(tmp_path).plan("id > 0")
    with pytest.raises(ps.UnsupportedError, match=r"b\.parquet stores the column id as int64, not int32; use to_arrow"):
        plan.to_dataset()
    assert plan.to_arrow()["id"].to_pylist() == [1, 2]


def test_the_demo_needs_duckdb(tmp_path: Path) -> None:
    program = "import sys; sys.modules['duckdb'] = None\nfrom parsieve.cli import main\nsys.exit(main(['demo']))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=500
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == "parsieve: the demo needs DuckDB: pip install duckdb\n"


def test_the_index_of_a_single_file_needs_an_index_location(folder: Path, tmp_path: Path) -> None:
    file = folder / "0.parquet"
    table = ps.open_table(file)
    assert table.plan("id = 6").to_arrow().num_rows == 1
    assert "in doubt" not in table.plan("id = 6").explain()
    with pytest.raises(ps.UnsupportedError, match=r"0\.parquet is a file, .*: pass one as index_location="):
        table.build_index("id")
    # A file that changed within the last tick has no token yet.
    wait_until_old(tmp_path)
    elsewhere = ps.open_table(file, index_location=tmp_path / "index")
    elsewhere.build_index("id")
    assert elsewhere.plan("id = 6", stale="error").to_arrow().num_rows == 1
    assert elsewhere.index_kinds() == {"id": "sieve"}


def test_the_error_for_files_without_bytes_says_so(tmp_path: Path) -> None:
    (tmp_path / "0.parquet").touch()
    for place in (tmp_path, tmp_path / "0.parquet"):
        with pytest.raises(FileNotFoundError, match=f"^no Parquet files in {place}; it has 1 file of 0 bytes"):
            ps.open_table(place).plan("id = 1")


def test_opening_a_missing_folder_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: '.*nix'"):
        ps.open_table(tmp_path / "nix")
    with pytest.raises(FileNotFoundError, match="globs are not supported"):
        ps.open_table(tmp_path / "*.parquet")


@pytest.mark.parametrize("name", ["0.csv", "x.csv"])
def test_the_error_for_a_csv_file_in_the_folder_names_it(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    (tmp_path / name).write_text("id\n1\n")
    with pytest.raises(ps.FormatError, match=rf"not a Parquet file: .*{name}.*[^.]\. .*starts with _ or a dot"):
        ps.open_table(tmp_path).build_index("id")
    assert ps.open_table(tmp_path / "a.parquet").plan("id = 1").to_arrow().num_rows == 1
