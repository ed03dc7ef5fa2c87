"""Encrypted tables without keys: plans use plaintext columns only, and encrypted columns cannot be indexed."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs
from support.aging import wait_until_old
from support.encrypted_files import TABLE, encrypted
from support.places import index_of

import parsieve as ps


class Handler(fs.FSSpecHandler):  # type: ignore[misc] # it has no types
    """Makes a filesystem of pyarrow that parsieve does not unwrap."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write files with plaintext footers, one plaintext column and two encrypted columns."""
    for part in range(3):
        encrypted(tmp_path / f"part-{part}.parquet", plaintext_footer=True)
    wait_until_old(tmp_path)
    return tmp_path


@pytest.mark.parametrize("row_groups", [None, True])
def test_plaintext_columns_skip_files_and_encrypted_ones_do_not(folder: Path, row_groups: bool | None) -> None:
    table = ps.open_table(str(folder))
    assert table.plan("open = 5000", row_groups=row_groups).files == []
    plan = table.plan("open = 1007", row_groups=row_groups)
    assert len(plan.files) == 3
    assert list(plan.row_groups.values()) == [[1]] * 3
    assert plan.to_arrow(["open"])["open"].to_pylist() == [1007] * 3
    # The footer contains neither bounds nor null counts of encrypted columns.
    for where in ("secret = 'no such'", "other < 0", "secret IS NULL", "other = -5 OR open = 5000"):
        plan = table.plan(where, row_groups=row_groups)
        assert len(plan.files) == 3, where
        assert set(plan.row_groups.values()) == {None}, where
    assert table.plan("other < 0 AND open < 0", row_groups=row_groups).files == []


def test_reading_encrypted_columns_fails_with_an_explanation(folder: Path) -> None:
    plan = ps.open_table(str(folder)).plan("open = 7")
    assert plan.to_arrow(["open"]).num_rows == 3
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        plan.to_arrow()
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        list(plan.to_batches(["secret"]))


def collect(plan: ps.Plan) -> object:
    return plan.to_polars().collect()


@pytest.mark.parametrize("store", ["local", "fsspec", "pyarrow"])
def test_every_reader_refuses_encrypted_columns(folder: Path, store: str) -> None:
    """pyarrow's scan would hang, or abort the process, when it looks at their statistics."""
    pq.write_table(TABLE, folder / "part-3.parquet")
    wait_until_old(folder)
    source: Any = folder
    if store != "local":
        memory = MemoryFileSystem()
        memory.store = {}
        for file in folder.iterdir():
            memory.pipe_file(f"/t/{file.name}", file.read_bytes())
        source = (memory if store == "fsspec" else fs.PyFileSystem(Handler(memory)), "/t")
    table = ps.open_table(source)
    for where in ("other < 0", "secret = 'no such'", "open = 7 OR secret IS NULL"):
        plan = table.plan(where)
        readers: list[Callable[[], object]] = [
            plan.to_arrow,
            plan.count_rows,
            partial(list, plan.to_batches(["open"])),
            plan.to_dataset,
            partial(collect, plan),
            plan.to_duckdb,
            duckdb.connect().from_arrow(table.dataset()).filter(where).fetchall,
        ]
        for read in readers:
            with pytest.raises((ps.UnsupportedError, duckdb.Error), match=r"part-0\.parquet is encrypted"):
                read()
    plan = table.plan("open = 7")
    assert plan.count_rows() == plan.to_arrow(["open"]).num_rows == 4


@pytest.mark.parametrize("kind", ["sieve", "bloom", "auto", "both"])
def test_encrypted_columns_cannot_be_indexed(folder: Path, kind: str) -> None:
    """An index would reveal the values to every reader of the index."""
    table = ps.open_table(str(folder))
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        table.build_index("secret", kind=kind)
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        table.build_index(["open", "other"], kind=kind)
    assert table.index_stats() == {}
    values = [value.encode() for value in TABLE["secret"].to_pylist()[:50]]
    stored = b"".join(path.read_bytes() for path in index_of(folder).rglob("*") if path.is_file())
    assert not any(value in stored for value in values)
    if kind != "auto":
        assert table.build_index("open", kind=kind).columns == {"open": kind}
        assert table.plan("open = 5000").files == []
        assert table.verify_index() == []


def test_files_with_encrypted_footers_are_kept_if_the_schema_is_known(tmp_path: Path) -> None:
    encrypted(tmp_path / "part-0.parquet")
    wait_until_old(tmp_path)
    # The schema comes from the first file, whose footer is encrypted.
    with pytest.raises(ps.UnsupportedError, match="encrypted"):
        _ = ps.open_table(str(tmp_path)).schema
    (tmp_path / "part-0.parquet").rename(tmp_path / "part-1.parquet")
    encrypted(tmp_path / "part-0.parquet", plaintext_footer=True)
    wait_until_old(tmp_path)
    plan = ps.open_table(str(tmp_path)).plan("open = 5000")
    assert plan.files == [str(tmp_path / "part-1.parquet")]
    assert "footer cannot be read" in plan.explain()


def test_encrypted_columns_are_doubts_of_kept_files(folder: Path) -> None:
    table = ps.open_table(str(folder))
    for where in ("other < 0", "other IS NULL", "other = 5 AND open = 7"):
        plan = table.plan(where)
        reasons = {keep.doubt for keep in plan.kept}
        assert reasons == {("its statistics of other are encrypted; pass their key as decryption= to open_table",)}
        assert "in doubt, so kept: 3 files" in plan.explain()
    assert {keep.doubt for keep in table.plan("open = 7").kept} == {()}
    assert table.plan("other < 0 AND open < 0").kept == []


def test_doubts_about_tables_that_take_no_keys_ask_for_none(tmp_path: Path) -> None:
    deltalake.write_deltalake(str(tmp_path), TABLE)
    [path] = tmp_path.glob("*.parquet")
    encrypted(path, plaintext_footer=True)
    log = tmp_path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (action["add"] for action in actions if "add" in action):
        add["size"] = path.stat().st_size
        del add["stats"]
    log.write_text("\n".join(map(json.dumps, actions)))
    [keep] = ps.open_table(str(tmp_path)).plan("other < 0").kept
    assert keep.doubt == ("its statistics of other are encrypted; open_table takes keys for plain folders only",)
