"""In an object store, the rows of one key need few requests that wait for each other."""

from __future__ import annotations

import io
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import parsieve as ps
from parsieve.index.pages.reader import MapReader
from parsieve.reader.file import Traffic

FILES, ROWS = 6, 60_000


@pytest.fixture(scope="module")
def store() -> Any:
    """Return a store with a table whose files have several row groups and page indexes."""
    store = MemoryStore()
    rng = random.Random(4)
    for part in range(FILES):
        ids = list(range(part, FILES * ROWS, FILES))
        rng.shuffle(ids)
        rows = pa.table({"id": ids, "text": [rng.randbytes(30).hex() for _ in ids], "n": range(ROWS)})
        buffer = io.BytesIO()
        pages = {"data_page_size": 64 << 10, "write_page_index": True, "use_dictionary": False}
        pq.write_table(rows, buffer, row_group_size=20_000, **pages)
        store.put(f"lake/{part}.parquet", buffer.getvalue())
    return store


@pytest.fixture
def opened(store: Any, tmp_path: Path) -> ps.Table:
    """Return a table with an index and a map of pages, which it has not read."""
    ps.open_table((store, "lake"), index_location=tmp_path / "index").build_index("id", kind="sieve", pages=True)
    return ps.open_table((store, "lake"), index_location=tmp_path / "index")


def traffic_of(plan: ps.Plan, caplog: pytest.LogCaptureFixture, **arguments: Any) -> Traffic:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "parsieve.rows"):
        plan.to_arrow(**arguments)
    [record] = [record for record in caplog.records if record.name == "parsieve.rows"]
    assert record.__dict__["reasons"] == {}
    traffic: Traffic = record.__dict__["traffic"]
    return traffic


def test_a_key_takes_one_round_trip_to_its_file(opened: ps.Table, caplog: pytest.LogCaptureFixture) -> None:
    plan = opened.plan("id = 1234")
    assert len(plan.files) == 1
    # The list of versions, the newest version, the root of the index, and the part with the key.
    assert plan.requests <= 4
    traffic = traffic_of(plan, caplog)
    assert traffic.round_trips == 1
    assert traffic.bytes_fetched < 2 << 20
    # All files are known now.
    assert traffic_of(opened.plan("id = 1235"), caplog).round_trips == 1


@pytest.fixture
def near_store() -> Iterator[None]:
    """Assume a store that answers so fast that another round trip costs less than 1,000 bytes."""
    ps.set_remote_speed(latency=1e-5, throughput=100e6)
    yield
    ps.set_remote_speed()


def test_long_columns_are_read_only_where_rows_match(
    opened: ps.Table, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    plan = opened.plan("id = 1234")
    at_once = traffic_of(plan, caplog)
    request.getfixturevalue("near_store")
    traffic = traffic_of(plan, caplog)
    assert traffic.round_trips == 2
    assert traffic.bytes_fetched < at_once.bytes_fetched / 2


def test_without_a_map_the_footer_is_read_once(
    opened: ps.Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("no connection")

    monkeypatch.setattr(MapReader, "read", fail)
    plan = opened.plan("id = 1234")
    first = traffic_of(plan, caplog)
    again = traffic_of(plan, caplog)
    assert again.round_trips < first.round_trips <= 3
    assert again.round_trips == 1


def test_several_files_wait_at_the_same_time(opened: ps.Table, caplog: pytest.LogCaptureFixture) -> None:
    plan = opened.plan("id BETWEEN 100 AND 105")
    assert len(plan.files) == FILES
    traffic = traffic_of(plan, caplog, columns=["id"])
    assert (traffic.requests, traffic.round_trips) == (FILES, 1)
