"""Requests of the protocol: wrong input, unknown plans, tokens and limits get errors in the protocol's form."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.sql import SqlCatalog
from support.serving import running, sql_catalog

from parsieve.cli import main
from parsieve.server.app import local_app
from parsieve.server.open_sql import open_sql_catalog
from parsieve.server.run import Listening, read_token, serve
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog

_TABLE = "/v1/namespaces/shop/tables/orders"
_TOKEN = "a-token-of-the-test"
_SCHEMA = pa.schema({"id": pa.int64(), "user": pa.string(), "price": pa.float64()})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    catalog = sql_catalog(tmp_path_factory.mktemp("shop"))
    orders = catalog.create_table("shop.orders", schema=_SCHEMA)
    for number in range(3):
        orders.append(pa.table({"id": [number], "user": ["a"], "price": [number / 2]}, schema=_SCHEMA))
    catalog.create_table("shop.empty", schema=pa.schema({"id": pa.int64()}))
    yield catalog
    catalog.close()


@pytest.fixture(scope="module")
def uri(catalog: Any) -> Iterator[str]:
    with running(local_app(LocalCatalog(catalog), Limits(page_size=2, body=10_000))) as address:
        yield address


def _plan(uri: str, **body: Any) -> requests.Response:
    return requests.post(f"{uri}{_TABLE}/plan", json=body, timeout=60)


def _is_error(response: requests.Response, status: int, kind: str) -> str:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert (error["code"], error["type"]) == (status, kind)
    assert "Traceback" not in error["message"]
    return str(error["message"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"filter": NaN}',
        b'{"filter": null}',
        b'{"filter": 5}',
        b'{"filter": {"type": "eq"}}',
        b'{"filter": {"type": "eq", "term": "id"}}',
        b'{"filter": {"type": "eq", "term": "absent", "value": 1}}',
        b'{"filter": {"type": "eq", "term": "id", "value": null}}',
        b'{"filter": {"type": "in", "term": "id", "values": [1, null]}}',
        b'{"filter": {"type": "and", "left": true}}',
        b'{"snapshot-id": "one"}',
        b'{"snapshot-id": true}',
        b'{"select": ["absent"]}',
        b'{"select": "id"}',
        b'{"stats-fields": [1]}',
        b'{"case-sensitive": 1}',
        b'{"filter": ' + b'{"type": "not", "child": ' * 300 + b"true" + b"}" * 301,
    ],
)
def test_wrong_input_is_refused(uri: str, body: bytes) -> None:
    _is_error(requests.post(f"{uri}{_TABLE}/plan", data=body, timeout=60), 400, "BadRequestException")


def test_infinite_numbers_are_refused_and_texts_of_them_are_not(uri: str) -> None:
    """Neither pyiceberg nor Java reads an infinite number that it wrote in a filter."""
    message = _is_error(_plan(uri, filter=_equals("price", "Infinity")), 400, "BadRequestException")
    assert "1.7976931348623157e308" in message
    _is_error(_plan(uri, filter={"type": "in", "term": "price", "values": [1.5, None]}), 400, "BadRequestException")
    for number in ("1e999", "-1e999"):
        body = f'{{"filter": {{"type": "lt", "term": "price", "value": {number}}}}}'.encode()
        _is_error(requests.post(f"{uri}{_TABLE}/plan", data=body, timeout=60), 400, "BadRequestException")
    assert _plan(uri, filter=_equals("user", "Infinity")).status_code == 200


def _equals(column: str, value: Any) -> dict[str, Any]:
    return {"type": "eq", "term": column, "value": value}


def test_unknown_things_are_errors_and_never_empty_pages(uri: str) -> None:
    _is_error(_plan(uri, **{"snapshot-id": 12345}), 404, "NoSuchSnapshotException")
    _is_error(requests.get(f"{uri}{_TABLE}/plan/unknown", timeout=60), 404, "NoSuchPlanIdException")
    plan = _plan(uri).json()
    for task in ("unknown", f"{plan['plan-id']}.2", f"{plan['plan-id']}.-1", plan["plan-id"]):
        response = requests.post(f"{uri}{_TABLE}/tasks", json={"plan-task": task}, timeout=60)
        _is_error(response, 404, "NoSuchPlanTaskException")
    # A plan belongs to one table.
    other = requests.post(f"{uri}{_TABLE[:-6]}empty/tasks", json={"plan-task": plan["plan-tasks"][0]}, timeout=60)
    _is_error(other, 404, "NoSuchPlanTaskException")
    _is_error(requests.get(f"{uri}/v1/namespaces/shop/tables/absent", timeout=60), 404, "NoSuchTableException")
    _is_error(requests.get(f"{uri}/v1/namespaces/absent/tables", timeout=60), 404, "NoSuchNamespaceException")


def test_plans_are_unknown_after_a_restart(uri: str, catalog: Any) -> None:
    task = _plan(uri).json()["plan-tasks"][0]
    with running(local_app(LocalCatalog(catalog), Limits(page_size=2))) as restarted:
        response = requests.post(f"{restarted}{_TABLE}/tasks", json={"plan-task": task}, timeout=60)
    _is_error(response, 404, "NoSuchPlanTaskException")


def test_a_plan_in_parts_has_every_file_once(uri: str) -> None:
    plan = _plan(uri, **{"min-rows-requested": 1}).json()
    again = requests.get(f"{uri}{_TABLE}/plan/{plan['plan-id']}", timeout=60).json()
    assert again == plan
    assert "file-scan-tasks" not in plan
    paths = []
    for task in plan["plan-tasks"]:
        part = requests.post(f"{uri}{_TABLE}/tasks", json={"plan-task": task}, timeout=60).json()
        paths += [one["data-file"]["file-path"] for one in part["file-scan-tasks"]]
    assert len(set(paths)) == len(paths) == 3


def test_the_residual_is_the_whole_filter(uri: str) -> None:
    filter = {"type": "and", "left": {"type": "eq", "term": "id", "value": 1}, "right": {"type": "odd", "term": "user"}}
    plan = _plan(uri, filter=filter, **{"stats-fields": ["id"]}).json()
    (task,) = plan["file-scan-tasks"]
    assert task["residual-filter"] == filter
    assert task["data-file"]["lower-bounds"] == {"keys": [1], "values": ["0100000000000000"]}


def test_names_are_case_sensitive_unless_the_client_says_otherwise(uri: str) -> None:
    filter = {"type": "eq", "term": "ID", "value": 1}
    _is_error(_plan(uri, filter=filter), 400, "BadRequestException")
    assert len(_plan(uri, filter=filter, **{"case-sensitive": False}).json()["file-scan-tasks"]) == 1


def test_requests_that_the_server_cannot_answer_are_unsupported(uri: str) -> None:
    _is_error(_plan(uri, **{"start-snapshot-id": 1, "end-snapshot-id": 2}), 406, "UnsupportedOperationException")
    _is_error(_plan(uri, select=["_row_id"]), 406, "UnsupportedOperationException")
    for method, path in (("POST", "/v1/namespaces"), ("DELETE", _TABLE), ("POST", _TABLE), ("GET", "/v2/x")):
        _is_error(requests.request(method, uri + path, timeout=60), 406, "UnsupportedOperationException")


def test_an_empty_table_has_an_empty_plan(uri: str) -> None:
    plan = requests.post(f"{uri}/v1/namespaces/shop/tables/empty/plan", json={}, timeout=60).json()
    assert (plan["status"], plan["file-scan-tasks"]) == ("completed", [])


@pytest.mark.parametrize("name", ["%20", "%1F", "a%1F", "%1Fa"])
def test_a_namespace_with_an_empty_part_does_not_exist(uri: str, name: str) -> None:
    for path in (f"namespaces/{name}", f"namespaces/{name}/tables", f"namespaces/{name}/tables/x"):
        _is_error(requests.get(f"{uri}/v1/{path}", timeout=60), 404, "NoSuchNamespaceException")
    _is_error(requests.get(f"{uri}/v1/namespaces?parent={name}", timeout=60), 404, "NoSuchNamespaceException")


def test_a_client_that_leaves_is_one_line_of_the_log(catalog: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with running(local_app(LocalCatalog(catalog), Limits())) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(f"POST {_TABLE}/plan HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
        while 'status="499"' not in requests.get(f"{address}/metrics", timeout=60).text:
            pass
    assert [json.loads(line)["status"] for line in capfd.readouterr().err.splitlines()] == [499]


def test_long_bodies_are_refused(uri: str) -> None:
    response = requests.post(f"{uri}{_TABLE}/plan", data=b"x" * 20_000, timeout=60)
    _is_error(response, 413, "BadRequestException")


def test_requests_need_the_token(catalog: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with running(local_app(LocalCatalog(catalog), Limits(), _TOKEN)) as address:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {_TOKEN}"}):
            response = requests.get(f"{address}/v1/config", headers=header, timeout=60)
            _is_error(response, 401, "NotAuthorizedException")
        allowed = requests.get(f"{address}/v1/config", headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=60)
        assert allowed.json()["defaults"] == {"scan-planning-mode": "server"}
        assert requests.get(f"{address}/health", timeout=60).text == "ok\n"
        metrics = requests.get(f"{address}/metrics", timeout=60).text
    assert 'parsieve_http_requests_total{route="/v1/config",status="401"} 3' in metrics
    log = capfd.readouterr().err
    assert _TOKEN not in log
    assert [json.loads(line)["status"] for line in log.splitlines()] == [401, 401, 401, 200]


def test_a_server_for_other_machines_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--token-file"):
        serve(f"sqlite:///{tmp_path}/c.db", Listening("0.0.0.0"), token=None, options={})
    with pytest.raises(ValueError, match="--tls-key"):
        serve(f"sqlite:///{tmp_path}/c.db", Listening(tls_cert="cert.pem"), token=None, options={})
    pair = Listening(tls_cert=f"{tmp_path}/cert.pem", tls_key=f"{tmp_path}/key.pem")
    with pytest.raises(FileNotFoundError, match=r"no such file: .*cert\.pem"):
        serve(f"sqlite:///{tmp_path}/c.db", pair, token=None, options={})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["https://ann:secret@host/api"], "must not contain a user or a password"),
        (["https://host/api?secret=1"], "must have the form https://host/path"),
        (["https://"], "must have the form https://host/path"),
        (["https://host/api", "--property", "s3.region=eu-west-1"], "--name and --property are for SQL catalogs"),
        (["https://host/api", "--name", "prod"], "--name and --property are for SQL catalogs"),
    ],
)
def test_nothing_is_ignored_in_front_of_a_rest_catalog(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["serve", *arguments]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "secret" not in printed


@pytest.mark.parametrize(
    "content", ["short", "a-token-of-the-t\u00e9st", "the-first-of-two-tokens\nthe-second-of-two-tokens"]
)
def test_a_token_that_no_client_can_send_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="token"):
        read_token(str(tmp_path / "token"))
    (tmp_path / "token").write_text(f"\ufeff{_TOKEN}\r\n", encoding="utf-8")
    assert read_token(str(tmp_path / "token")) == _TOKEN


def test_a_server_that_cannot_listen_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = SqlCatalog("default", uri=f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("shop")
    catalog.close()
    command = ["serve", f"sqlite:///{tmp_path}/c.db"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main([*command, "--port", str(port)]) == 2
    assert f"127.0.0.1:{port}: cannot listen here: Address already in use; choose another" in capsys.readouterr().err
    assert main([*command, "--port", "99999"]) == 2
    assert "--port must be a number from 0 to 65535, not 99999" in capsys.readouterr().err
    assert main([*command, "--own-storage"]) == 2
    assert "--own-storage is for REST catalogs" in capsys.readouterr().err
    missing, wrong = str(tmp_path / "none.pem"), tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    assert main([*command, "--port", "0", "--tls-cert", missing, "--tls-key", missing]) == 2
    assert missing in capsys.readouterr().err
    assert main([*command, "--port", "0", "--tls-cert", str(tmp_path), "--tls-key", str(wrong)]) == 2
    assert f"{tmp_path}: Is a directory" in capsys.readouterr().err
    assert main([*command, "--port", "0", "--tls-cert", str(wrong), "--tls-key", str(wrong)]) == 2
    assert f"--tls-cert {wrong} and --tls-key {wrong} are not the PEM files" in capsys.readouterr().err


def test_a_database_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    created = sql_catalog(tmp_path)
    created.create_table("shop.orders", schema=_SCHEMA)
    created.close()
    catalog = open_sql_catalog(f"sqlite:///{tmp_path}/catalog.db", "sql", {})
    with running(local_app(LocalCatalog(catalog), Limits())) as address:
        (tmp_path / "catalog.db").rename(tmp_path / "moved.db")
        (tmp_path / "catalog.db").mkdir()
        paths = ("/v1/namespaces", "/v1/namespaces/shop", "/v1/namespaces/shop/tables", _TABLE)
        responses = [requests.get(f"{address}{path}", timeout=60) for path in paths]
        responses.append(_plan(address))
        for response in responses:
            assert "cannot read the database" in _is_error(response, 503, "ServiceUnavailableException")
        assert "unable to open database file" in caplog.text
        assert "Traceback" not in caplog.text
        (tmp_path / "catalog.db").rmdir()
        (tmp_path / "moved.db").rename(tmp_path / "catalog.db")
        assert _plan(address).status_code == 200
    catalog.close()
