"""In front of a REST catalog: its rights decide who may plan, and all other requests reach it unchanged."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ForbiddenError
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from support.serving import client, running, sql_catalog

import parsieve as ps
from parsieve.server.app import local_app
from parsieve.server.rest_app import rest_app
from parsieve.server.rest_catalog import RestCatalog
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

_SECRET = "/v1/namespaces/shop/tables/secret"


class Guarded:
    """A REST catalog with two users. Only alice may read the table `secret`. It remembers the requests it got."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.seen: list[tuple[str, str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        user = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        self.seen.append((user, scope["method"], scope["path"]))
        if user not in ("alice", "bob") or (user == "bob" and scope["path"].startswith(_SECRET)):
            error = {"message": f"{user} may not do this", "type": "ForbiddenException", "code": 403}
            await JSONResponse({"error": error}, 403, {"x-upstream": "yes"})(scope, receive, send)
        else:
            await self._inner(scope, receive, send)


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[tuple[Guarded, str]]:
    """Return the upstream catalog and the address of the server in front of it."""
    catalog = sql_catalog(tmp_path)
    for name in ("orders", "secret"):
        table = catalog.create_table(f"shop.{name}", schema=pa.schema({"id": pa.int64()}))
        for part in range(4):
            table.append(pa.table({"id": range(part, 400, 4)}))
        ps.open_table(catalog.load_table(f"shop.{name}")).build_index("id", progress=False)
    guarded = Guarded(local_app(LocalCatalog(catalog), Limits()))
    with running(guarded) as inner, running(rest_app(RestCatalog(inner, 60), Limits(page_size=2))) as uri:
        yield guarded, uri
    catalog.close()


def test_only_who_may_load_a_table_may_plan(upstream: tuple[Guarded, str]) -> None:
    guarded, uri = upstream
    alice, bob = (client(uri, token=user) for user in ("alice", "bob"))
    assert [len(list(one.load_table("shop.orders").scan("id = 201").plan_files())) for one in (alice, bob)] == [1, 1]
    secret = alice.load_table("shop.secret")
    assert secret.scan("id = 201").to_arrow()["id"].to_pylist() == [201]
    with pytest.raises(ForbiddenError):
        bob.load_table("shop.secret")
    # The server itself planned: no such request reached the catalog.
    assert not [path for _, _, path in guarded.seen if "/plan" in path or "/tasks" in path]


def test_plans_of_others_are_out_of_reach(upstream: tuple[Guarded, str]) -> None:
    _, uri = upstream
    alice, bob = ({"Authorization": f"Bearer {user}"} for user in ("alice", "bob"))
    plan = requests.post(f"{uri}{_SECRET}/plan", json={}, headers=alice, timeout=60).json()
    tasks = {"plan-task": plan["plan-tasks"][0]}
    assert requests.post(f"{uri}{_SECRET}/tasks", json=tasks, headers=alice, timeout=60).status_code == 200
    for headers in (bob, {}):
        for response in (
            requests.post(f"{uri}{_SECRET}/plan", json={}, headers=headers, timeout=60),
            requests.post(f"{uri}{_SECRET}/tasks", json=tasks, headers=headers, timeout=60),
            requests.get(f"{uri}{_SECRET}/plan/{plan['plan-id']}", headers=headers, timeout=60),
        ):
            assert response.status_code == 403
            assert response.json()["error"]["type"] == "ForbiddenException"
    # Not even through a table that bob may read.
    other = requests.post(f"{uri}{_SECRET[:-6]}orders/tasks", json=tasks, headers=bob, timeout=60)
    assert other.status_code == 404


def _in_object_store(inner: str, config: dict[str, str]) -> Any:
    """Return a catalog that claims that the tables of another one are in an object store."""

    async def answer(request: Any) -> JSONResponse:
        response = await asyncio.to_thread(requests.get, inner + request.url.path, timeout=60)
        document = response.json()
        document["metadata"]["location"] = "s3://bucket/orders"
        return JSONResponse(document | {"config": config})

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])])


@pytest.mark.parametrize(
    ("config", "own_storage", "plans"),
    [
        ({}, False, False),
        ({"s3.region": "eu-west-1", "token": "of-the-catalog"}, False, False),
        ({"s3.access-key-id": "a", "s3.secret-access-key": "b"}, False, True),
        ({}, True, True),
    ],
)
def test_the_server_reads_no_storage_by_its_own_rights(
    tmp_path: Path, config: dict[str, str], own_storage: bool, plans: bool
) -> None:
    catalog = sql_catalog(tmp_path)
    catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    with (
        running(local_app(LocalCatalog(catalog), Limits())) as inner,
        running(_in_object_store(inner, config)) as upstream,
        running(rest_app(RestCatalog(upstream, 60, own_storage=own_storage), Limits())) as uri,
    ):
        table = f"{uri}/v1/namespaces/shop/tables/orders"
        loaded = requests.get(table, timeout=60).json()
        planned = requests.post(f"{table}/plan", json={}, timeout=60)
    assert loaded["config"]["scan-planning-mode"] == ("server" if plans else "client")
    if plans:
        assert planned.json()["status"] == "completed"
    else:
        assert planned.status_code == 406
        assert "--own-storage" in planned.json()["error"]["message"]
    catalog.close()


def test_metadata_cannot_make_the_server_read_what_only_itself_may_read(tmp_path: Path) -> None:
    catalog = sql_catalog(tmp_path)
    table = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    table.append(pa.table({"id": [1]}))

    def upstream(inner: str, place: str, config: dict[str, str]) -> Starlette:
        async def answer(request: Any) -> JSONResponse:
            response = await asyncio.to_thread(requests.get, inner + request.url.path, timeout=60)
            document = response.json()
            document["metadata"]["location"] = place
            if place.startswith("file:"):
                document["metadata"]["snapshots"][0]["manifest-list"] = "s3://private/list.avro"
            return JSONResponse(document | {"config": config})

        return Starlette(routes=[Route("/{path:path}", answer, methods=["GET"])])

    rights = {"s3.access-key-id": "a", "s3.secret-access-key": "b"}
    cases: list[tuple[str, dict[str, str], str]] = [
        ("file:///tables/orders", {}, "s3: addresses"),
        # The manifests of this table are local files.
        ("s3://bucket/orders", rights, "file: addresses"),
    ]
    with running(local_app(LocalCatalog(catalog), Limits())) as inner:
        for place, config, message in cases:
            with (
                running(upstream(inner, place, config)) as address,
                running(rest_app(RestCatalog(address, 60), Limits())) as uri,
            ):
                planned = requests.post(f"{uri}/v1/namespaces/shop/tables/orders/plan", json={}, timeout=60)
            assert (planned.status_code, message in planned.json()["error"]["message"]) == (406, True)
    catalog.close()


def test_a_local_path_may_contain_a_colon(tmp_path: Path) -> None:
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/at 10:00")
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()})).append(pa.table({"id": [1]}))
    with (
        running(local_app(LocalCatalog(catalog), Limits())) as inner,
        running(rest_app(RestCatalog(inner, 60), Limits())) as uri,
    ):
        planned = requests.post(f"{uri}/v1/namespaces/shop/tables/orders/plan", json={}, timeout=60)
    assert (planned.status_code, len(planned.json()["file-scan-tasks"])) == (200, 1)
    catalog.close()


def test_other_requests_are_forwarded(upstream: tuple[Guarded, str]) -> None:
    guarded, uri = upstream
    headers = {"Authorization": "Bearer alice"}
    response = requests.delete(f"{uri}{_SECRET}?purgeRequested=false", headers=headers, timeout=60)
    assert response.status_code == 406
    assert guarded.seen[-1] == ("alice", "DELETE", _SECRET)
    refused = requests.post(f"{uri}/v1/namespaces", json={"namespace": ["x"]}, timeout=60)
    assert (refused.status_code, refused.headers["x-upstream"]) == (403, "yes")
    config = requests.get(f"{uri}/v1/config", headers=headers, timeout=60).json()
    assert config["defaults"]["scan-planning-mode"] == "server"


@pytest.mark.parametrize(
    "path",
    ["/v1/../../admin", "/v1/%2e%2E/%2e%2e/admin", "/v1/x/..%2F..%2Fadmin", "/v1/./config", "/v1/namespaces/.."],
)
def test_no_path_leaves_the_upstream_catalog(upstream: tuple[Guarded, str], path: str) -> None:
    guarded, uri = upstream
    connection = http.client.HTTPConnection(uri.removeprefix("http://"), timeout=60)
    connection.request("GET", path, headers={"Authorization": "Bearer alice"})
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["error"]["message"]) == (400, "a part of the path is . or ..")
    connection.close()
    assert guarded.seen == []
