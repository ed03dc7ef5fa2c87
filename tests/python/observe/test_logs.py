"""Each operation writes one line at level INFO, without secrets and without values of predicates."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.places import index_of

import parsieve as ps
from parsieve.observe import logs

SECRET = "c-00042-secret"


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(3):
        names = [f"c-{row:05}" for row in range(part, 300, 3)] + [SECRET]
        pq.write_table(pa.table({"customer": names}), folder / f"{part}.parquet")
    return ps.open_table(folder)


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    found = [
        record.getMessage() for record in caplog.records if record.name == logger and record.levelno == logging.INFO
    ]
    caplog.clear()
    return found


def test_each_operation_on_an_index_writes_one_line(table: ps.Table, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parsieve")
    operations: dict[str, Callable[[], object]] = {
        "build": lambda: table.build_index("customer"),
        "update": table.update_index,
        "compact": table.compact_index,
        "convert": table.convert_index,
        "expire": table.expire_index,
        "drop": table.drop_index,
    }
    for operation, run in operations.items():
        report = run()
        first = str(report).splitlines()[0]
        assert lines(caplog, "parsieve.index") == [f"{operation} index of {table.uri}: {first}"]


def test_queries_of_engines_log_problems_of_the_index(table: ps.Table, caplog: pytest.LogCaptureFixture) -> None:
    """They show no plan, so the log has all that is known."""
    table.build_index("customer", kind="sieve")
    for root in index_of(Path(table.uri)).rglob("*.root"):
        root.write_bytes(b"")
    caplog.set_level(logging.INFO, "parsieve.plan")
    rows = ps.open_table(table.uri).dataset().to_table(filter=pc.field("customer") == SECRET)
    assert rows.num_rows == 3
    [line] = lines(caplog, "parsieve.plan")
    assert line.startswith(f"planned {table.uri} with problems: the index, roots/")
    assert SECRET not in line


def test_rewrites_of_filters_write_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "parsieve")
    for part in range(2):
        pq.write_table(pa.table({"customer": [SECRET]}), tmp_path / f"{part}.parquet")
    ps.add_filters(tmp_path / "0.parquet", columns="customer", dry_run=True)
    assert lines(caplog, "parsieve.filters") == []
    ps.add_filters(tmp_path / "0.parquet", columns="customer")
    [line] = lines(caplog, "parsieve.filters")
    assert line.startswith(f"rewrote filters of {tmp_path / '0.parquet'}: 1 filter added, 0 dropped; +")
    ps.add_filters(tmp_path, columns="customer")
    [line] = lines(caplog, "parsieve.filters")
    assert line.startswith(f"rewrote filters of {tmp_path}: 2 files, 2 written; 2 filters added")
    ps.drop_filters(tmp_path)
    [line] = lines(caplog, "parsieve.filters")
    assert "2 dropped" in line


def test_no_value_of_a_predicate_is_logged_at_info(
    table: ps.Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parsieve.plan.telemetry.SLOW", 0.0)
    caplog.set_level(logging.INFO, "parsieve")
    table.build_index("customer")
    table.plan(f"customer = '{SECRET}'").to_arrow()
    table.plan([("customer", "in", [SECRET])]).to_arrow()
    table.lookup("customer", [SECRET])
    table.update_index()
    assert len([record for record in caplog.records if record.name == "parsieve.plan"]) == 3
    assert SECRET not in caplog.text


def test_plans_and_reads_are_logged_at_debug(table: ps.Table, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "parsieve")
    table.plan("customer = 'c-00003'").to_arrow()
    assert [record.name for record in caplog.records] == ["parsieve.plan", "parsieve.rows"]


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("s3://key:secret@lake/orders", "s3://lake/orders"),
        ("https://host/lake?sig=secret&x=1", "https://host/lake?…"),
        (
            "abfs://container@account.dfs.core.windows.net/orders",
            "abfs://container@account.dfs.core.windows.net/orders",
        ),
        ("/lake/a?b@c", "/lake/a?b@c"),
    ],
)
def test_places_are_logged_without_credentials(where: str, shown: str) -> None:
    assert logs.place(where) == shown


def test_no_handler_is_installed_and_logging_is_cheap_to_import() -> None:
    program = (
        "import logging, parsieve, parsieve.table; print([logging.getLogger(n).handlers for n in ('', 'parsieve')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout == "[[], []]\n"
