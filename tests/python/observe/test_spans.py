"""Plans, reads and index builds are spans of OpenTelemetry, if the application uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.observe import spans

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture(scope="module")
def exporter() -> Iterator[Any]:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A process has one provider.
    trace.set_tracer_provider(provider)
    yield exporter
    # parsieve makes spans while this module is loaded, so the other tests make none.
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        del sys.modules[name]


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    for part in range(4):
        pq.write_table(pa.table({"id": [part, part + 10]}), tmp_path / f"{part}.parquet")
    return ps.open_table(tmp_path, index_location=tmp_path / "_index")


def test_operations_are_spans(table: ps.Table, exporter: Any) -> None:
    exporter.clear()
    table.build_index("id")
    assert table.plan("id = 12").to_arrow().num_rows == 1
    built, planned, read = exporter.get_finished_spans()
    assert [span.name for span in (built, planned, read)] == ["parsieve.build_index", "parsieve.plan", "parsieve.read"]
    assert planned.attributes["parsieve.table"] == table.uri
    assert planned.attributes["parsieve.columns"] == "id"
    assert (planned.attributes["parsieve.files"], planned.attributes["parsieve.files_kept"]) == (4, 1)
    assert "12" not in str(dict(planned.attributes)).replace(table.uri, "")
    assert read.attributes["parsieve.rows"] == 1
    assert built.attributes["parsieve.report"].startswith("id: Sieve index of 4 files")


def test_spans_belong_to_the_span_of_the_caller(table: ps.Table, exporter: Any) -> None:
    from opentelemetry import trace

    exporter.clear()
    with trace.get_tracer("application").start_as_current_span("request") as request:
        table.lookup("id", [12])
    parents = {span.name: span.parent.span_id for span in exporter.get_finished_spans() if span.parent is not None}
    assert parents == dict.fromkeys(("parsieve.plan", "parsieve.read"), request.get_span_context().span_id)


def test_errors_end_a_span(table: ps.Table, exporter: Any) -> None:
    exporter.clear()
    with pytest.raises(ps.ColumnNotFoundError):
        table.build_index("nothing")
    [span] = exporter.get_finished_spans()
    assert not span.status.is_ok
    with pytest.raises(ZeroDivisionError), spans.span("failing"):
        _ = 1 / 0
    assert exporter.get_finished_spans()[-1].name == "failing"


def test_a_stream_that_is_not_read_to_its_end_ends_its_span(table: ps.Table, exporter: Any) -> None:
    exporter.clear()
    batches = table.plan("id >= 0").to_batches()
    next(batches)
    del batches
    assert [span.name for span in exporter.get_finished_spans()] == ["parsieve.plan", "parsieve.read"]


def test_parsieve_never_imports_opentelemetry(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "0.parquet")
    program = (
        f"import sys, parsieve\ntable = parsieve.open_table({str(tmp_path)!r})\ntable.build_index('id')\n"
        "table.plan('id = 1').to_arrow()\nprint([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout == "[]\n"
