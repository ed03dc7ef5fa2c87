"""The programs of examples/recipes do what they promise."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

FOLDER = Path(__file__).parents[3] / "examples" / "recipes"
FILES, ROWS = 10, 50


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    for part in range(FILES):
        ids = list(range(part, ROWS * FILES, FILES))
        columns = {"order_id": ids, "customer": [number % 97 for number in ids], "amount": [1.5] * ROWS}
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")
    return folder


def run_update(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(FOLDER / "update_index.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_job_builds_and_updates_an_index(orders: Path) -> None:
    first = run_update(str(orders), "order_id")
    assert first.returncode == 0, first.stderr
    assert f"parsieve.index: build index of {orders}: order_id: Sieve index of 10 files" in first.stderr
    pq.write_table(pa.table({"order_id": [7000], "customer": [1], "amount": [2.0]}), orders / "new.parquet")
    second = run_update(str(orders), "order_id")
    assert second.returncode == 0, second.stderr
    assert "read 1 file, 1 row" in second.stderr
    [kept] = ps.open_table(orders).plan("order_id = 7000").kept
    assert Path(kept.path).name == "new.parquet"
    assert not kept.doubt


def test_the_job_reports_files_that_are_left_out(orders: Path) -> None:
    # A column of another type cannot be indexed together with the others.
    pq.write_table(pa.table({"order_id": ["text"], "customer": [1], "amount": [2.0]}), orders / "other.parquet")
    result = run_update(str(orders), "order_id")
    assert (result.returncode, "other.parquet" in result.stderr) == (1, True), result.stderr


def test_the_job_fails_with_a_separate_exit_code(tmp_path: Path, orders: Path) -> None:
    for arguments in ([str(tmp_path / "nothing"), "order_id"], [str(orders), "nothing"]):
        failed = run_update(*arguments)
        assert failed.returncode == 2
        assert "Traceback" not in failed.stderr


def test_the_service_answers_point_queries(orders: Path) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    ps.open_table(orders).build_index("order_id", kind="sieve")
    client = testclient.TestClient(recipe("point_queries").make_app(str(orders), "order_id"))
    answer = client.get("/rows", params={"key": [42, 7, 99_999]})
    assert answer.status_code == 200
    assert [row["order_id"] for row in answer.json()["rows"]] == [42, 7]
    assert answer.json()["missing"] == [99_999]
    assert client.get("/rows", params={"key": "no number"}).status_code == 422
    assert client.get("/rows", params={"key": list(range(101))}).status_code == 422
    assert client.get("/rows").status_code == 422
    assert "parsieve_plans_total" in client.get("/metrics").text


def test_the_model_equals_a_full_scan(orders: Path) -> None:
    import duckdb

    table = ps.open_table(orders)
    table.build_index("customer", kind="sieve")
    model = recipe("duckdb_model")
    full = f"SELECT customer, count(*), sum(amount) FROM '{orders}/*.parquet' GROUP BY customer ORDER BY customer"
    with duckdb.connect() as con:
        model.refresh(con, table, range(97))
        assert con.sql("FROM totals ORDER BY customer").fetchall() == con.sql(full).fetchall()
        pq.write_table(pa.table({"order_id": [1], "customer": [5], "amount": [100.0]}), orders / "1.parquet")
        # File 1 held orders of many customers, and now has one order of customer 5.
        plan = model.refresh(con, table, [1, 5, 11])
        assert len(plan.files) + len(plan.skipped) == FILES
        shown = con.sql("FROM totals WHERE customer IN (1, 5, 11) ORDER BY customer").fetchall()
        assert shown == [row for row in con.sql(full).fetchall() if row[0] in (1, 5, 11)]


def test_a_customer_without_orders_has_no_total(orders: Path) -> None:
    import duckdb

    table = ps.open_table(orders)
    model = recipe("duckdb_model")
    with duckdb.connect() as con:
        con.execute("CREATE TABLE totals (customer BIGINT PRIMARY KEY, orders BIGINT, amount DOUBLE)")
        con.execute("INSERT INTO totals VALUES (500, 3, 4.5), (2, 0, 0)")
        model.refresh(con, table, [500])
        assert con.sql("FROM totals").fetchall() == [(2, 0, 0.0)]


PERSON = "c-00000"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    from deltalake import write_deltalake

    folder = tmp_path / "people"
    for day in range(4):
        numbers = [(day * 619 + row * 7) % 500 for row in range(100)]
        names = [f"c-{number:05}" for number in numbers]
        write_deltalake(folder, pa.table({"customer": names, "day": [day] * 100}), mode="append")
    ps.open_table(folder).build_index("customer", kind="sieve", keep_keys=True)
    return folder


def test_a_person_is_erased_without_a_trace(people: Path) -> None:
    module = recipe("erase_person")
    before = ps.open_table(people).plan().to_arrow()
    # The bytes are found in a data file, in statistics of the log, and in the index.
    parts = {Path(path).relative_to(people).parts[0] for path in module.traces(str(people), PERSON)}
    assert {"_delta_log", "_parsieve"} < parts
    erased = module.erase(str(people), "customer", PERSON)
    assert (erased.rows, erased.rows_left, erased.traces) == (1, 0, [])
    assert len(erased.files) == 1
    table = ps.open_table(people)
    assert table.lookup("customer", [PERSON]).missing.to_pylist() == [PERSON]
    assert table.verify_index() == []
    left = table.plan().to_arrow()
    assert sorted(left["customer"].to_pylist()) == sorted(
        name for name in before["customer"].to_pylist() if name != PERSON
    )


def test_a_trace_in_the_log_is_reported(people: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = recipe("erase_person")
    monkeypatch.setattr(module, "forget_history", lambda folder: None)
    erased = module.erase(str(people), "customer", PERSON)
    assert erased.rows_left == 0
    assert erased.traces
    assert {Path(path).parent.name for path in erased.traces} == {"_delta_log"}


def test_a_row_in_a_file_that_is_not_part_of_the_table_is_reported(people: Path) -> None:
    module = recipe("erase_person")
    copy = people / "copy.parquet"
    pq.write_table(pa.table({"customer": [PERSON], "day": [1]}), copy)
    assert module.rows_in_files(str(people), "customer", PERSON) == 2
