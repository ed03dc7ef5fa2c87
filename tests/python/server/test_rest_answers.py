"""Answers of an upstream REST catalog that are rare, late or missing."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.exceptions import CommitStateUnknownException
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from support.serving import client, running, sql_catalog

from parsieve.server.app import local_app
from parsieve.server.rest_app import rest_app
from parsieve.server.rest_catalog import RestCatalog
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

_TABLE = "/v1/namespaces/shop/tables/orders"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    catalog = sql_catalog(tmp_path)
    catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()})).append(pa.table({"id": [1]}))
    yield catalog
    catalog.close()


@contextmanager
def _with_other_tables(catalog: Any, change: Callable[[dict[str, Any]], Any]) -> Iterator[str]:
    """Yield the address of a server in front of a catalog whose loaded tables are changed."""

    async def answer(request: Any) -> Response:
        response = await asyncio.to_thread(requests.get, inner + request.url.path, timeout=60)
        document = response.json()
        if "metadata" in document:
            change(document)
        return JSONResponse(document, response.status_code)

    upstream = Starlette(routes=[Route("/{path:path}", answer)])
    with (
        running(local_app(LocalCatalog(catalog), Limits())) as inner,
        running(upstream) as address,
        running(rest_app(RestCatalog(address, 60), Limits())) as uri,
    ):
        yield uri


def test_new_files_are_planned_if_the_catalog_hides_where_its_metadata_are(catalog: Any) -> None:
    orders = catalog.load_table("shop.orders")
    with _with_other_tables(catalog, lambda document: document.update({"metadata-location": None})) as uri:
        table = client(uri).load_table("shop.orders")
        assert table.scan().to_arrow()["id"].to_pylist() == [1]
        orders.append(pa.table({"id": [2]}))
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
        new = orders.current_snapshot().snapshot_id
        planned = requests.post(f"{uri}{_TABLE}/plan", json={"snapshot-id": new}, timeout=60).json()
        assert len(planned["file-scan-tasks"]) == 2


@pytest.mark.parametrize("name", ["config", "storage-credentials"])
def test_fields_may_be_null(catalog: Any, name: str) -> None:
    with _with_other_tables(catalog, lambda document: document.update({name: None})) as uri:
        assert requests.get(uri + _TABLE, timeout=60).json()["config"] == {"scan-planning-mode": "server"}
        assert len(requests.post(f"{uri}{_TABLE}/plan", json={}, timeout=60).json()["file-scan-tasks"]) == 1


def test_metadata_that_pyiceberg_cannot_read_are_an_error_with_a_reason(catalog: Any) -> None:
    with _with_other_tables(catalog, lambda document: document["metadata"].update({"format-version": 99})) as uri:
        planned = requests.post(f"{uri}{_TABLE}/plan", json={}, timeout=60)
    assert planned.status_code == 406
    assert "pyiceberg cannot read the metadata of this table" in planned.json()["error"]["message"]


class Hanging:
    """A REST catalog that answers no POST request until a test releases it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.go_on = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while scope["method"] == "POST" and not self.go_on:
            await asyncio.sleep(0.01)
        if scope["path"] == "/v1/config":
            await JSONResponse({"defaults": {}, "overrides": {}})(scope, receive, send)
        else:
            await self._inner(scope, receive, send)


@pytest.mark.parametrize(("of_server", "of_catalog"), [(0.1, 60), (60, 0.1)])
def test_the_outcome_of_a_commit_without_an_answer_is_unknown(
    catalog: Any, of_server: float, of_catalog: float
) -> None:
    """A client that takes the commit for failed may delete the files of a commit that succeeded, or commit again."""
    hanging = Hanging(local_app(LocalCatalog(catalog), Limits()))
    with (
        running(hanging) as inner,
        running(rest_app(RestCatalog(inner, 60), Limits())) as patient,
        running(rest_app(RestCatalog(inner, of_catalog), Limits(seconds=of_server))) as uri,
    ):
        # On a busy machine, even this can take long.
        table = client(patient).load_table("shop.orders")
        table.catalog.uri = uri
        with pytest.raises(CommitStateUnknownException, match="the catalog may have applied the request"):
            table.append(pa.table({"id": [2]}))
        hanging.go_on = True
        # Plans change nothing, so clients may ask again.
        with running(rest_app(RestCatalog(inner, 60), Limits(seconds=1e-9))) as hasty:
            assert requests.post(f"{hasty}{_TABLE}/plan", json={}, timeout=60).status_code == 503


def test_an_unreachable_catalog_has_a_reason_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with (
        caplog.at_level(logging.WARNING, "parsieve.server"),
        running(rest_app(RestCatalog(f"http://127.0.0.1:{port}", 60), Limits())) as uri,
    ):
        # Nothing was sent, so clients may try again.
        for method in ("GET", "POST"):
            assert requests.request(method, f"{uri}/v1/config?secret=1", timeout=60).status_code == 503
    assert "refused" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("content", [b"<html>", b"[]", b""])
def test_an_answer_that_is_not_of_the_protocol_is_named(content: bytes) -> None:
    async def answer(_: Any) -> Response:
        return Response(content)

    with (
        running(Starlette(routes=[Route("/{path:path}", answer)])) as inner,
        running(rest_app(RestCatalog(inner, 60), Limits())) as uri,
    ):
        answered = requests.get(uri + _TABLE, timeout=60)
    assert answered.status_code == 502
    assert "the answer of the upstream catalog is not a JSON object" in answered.json()["error"]["message"]


def test_a_certificate_authority_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/absent/authority.pem")
    with pytest.raises(OSError, match=r"/absent/authority\.pem"):
        RestCatalog("https://127.0.0.1:1", 60).json("/v1/config", {})
