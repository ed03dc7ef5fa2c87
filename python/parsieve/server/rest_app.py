"""A REST catalog that plans scans, in front of one that does not. All other requests are forwarded."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from parsieve.server.app import CLIENT_PLANNING, PLANNING, open_routes
from parsieve.server.gate import Gate, json_response
from parsieve.server.metrics import Requests
from parsieve.server.plan_store import PlanStore
from parsieve.server.planner import Planner
from parsieve.server.protocol.errors import bad_request, unsupported
from parsieve.server.protocol.requests import read_json, read_plan_request
from parsieve.server.rest_catalog import RestCatalog, UpstreamError, caller, is_read
from parsieve.server.settings import Limits

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_TABLE = re.compile(r"(?P<table>/v1/(?:.+/)?namespaces/[^/]+/tables/[^/]+)(?P<rest>/plan|/plan/[^/]+|/tasks)?")
_IN_PROTOCOL = "/v1/{prefix}/namespaces/{namespace}"
_PLANNING_ENDPOINTS = [
    f"POST {_IN_PROTOCOL}/tables/{{table}}/plan",
    f"GET {_IN_PROTOCOL}/tables/{{table}}/plan/{{plan-id}}",
    f"DELETE {_IN_PROTOCOL}/tables/{{table}}/plan/{{plan-id}}",
    f"POST {_IN_PROTOCOL}/tables/{{table}}/tasks",
]
# The endpoints of a catalog that does not list them.
_ASSUMED = [
    *("GET /v1/{prefix}/namespaces", "POST /v1/{prefix}/namespaces"),
    *(f"{method} {_IN_PROTOCOL}" for method in ("GET", "DELETE")),
    f"POST {_IN_PROTOCOL}/properties",
    *(f"{method} {_IN_PROTOCOL}/tables" for method in ("GET", "POST")),
    *(f"{method} {_IN_PROTOCOL}/tables/{{table}}" for method in ("GET", "POST", "DELETE")),
    *(f"POST {_IN_PROTOCOL}/register", f"POST {_IN_PROTOCOL}/tables/{{table}}/metrics"),
    *("POST /v1/{prefix}/tables/rename", "POST /v1/{prefix}/transactions/commit"),
]


def rest_app(catalog: RestCatalog, limits: Limits) -> Starlette:
    """Return the application for an upstream REST catalog, which checks the rights of each caller."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    gate = Gate(limits, Requests(), may_write=_may_write)
    service = _Service(catalog, gate, PlanStore(limits.page_size))
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(
        routes=[*open_routes(gate.requests), Route("/{path:path}", gate.watch(service.answer), methods=methods)]
    )


class _Service:
    """Answers requests about plans, and forwards all others."""

    def __init__(self, catalog: RestCatalog, gate: Gate, plans: PlanStore) -> None:
        self._catalog = catalog
        self._gate = gate
        self._plans = plans
        self._planner = Planner()

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        path = _path(request)
        if not path.startswith("/v1/"):
            raise unsupported("the path is not one of the Iceberg REST protocol")
        if any(part in (".", "..") for part in unquote(path).split("/")):
            # The upstream server, or the client library, would take them for another path, even outside of its catalog.
            raise bad_request("a part of the path is . or ..")
        match, body = _TABLE.fullmatch(path), await self._gate.body(request)
        if match and match["rest"]:
            work: Any = lambda: self._about_plans(request, match["table"], match["rest"], body)  # noqa: E731
        elif request.method == "GET" and (match or path == "/v1/config"):
            work = lambda: self._with_planning(request, path, is_table=match is not None)  # noqa: E731
        else:
            return await self._forwarded(request, path, body)
        try:
            return json_response(await self._gate.in_thread(work))
        except UpstreamError as error:
            return json_response(error.body, status=error.status)

    def _with_planning(self, request: Request, path: str, *, is_table: bool) -> Any:
        """Return a table or the configuration, and tell the client to let the server plan."""
        document = self._catalog.json(_target(request, path), request.headers)
        if is_table:
            mode = PLANNING if self._catalog.storage_rights(document) is not None else CLIENT_PLANNING
            return document | {"config": (document.get("config") or {}) | mode}
        # A client must not be sent to the upstream catalog.
        settings = {
            name: {key: value for key, value in (document.get(name) or {}).items() if key != "uri"}
            for name in ("defaults", "overrides")
        }
        # A default, so that a client can still choose to plan itself.
        settings["defaults"] |= PLANNING
        settings["overrides"] = {name: value for name, value in settings["overrides"].items() if name not in PLANNING}
        endpoints = [*(document.get("endpoints") or _ASSUMED), *_PLANNING_ENDPOINTS]
        return document | settings | {"endpoints": list(dict.fromkeys(endpoints))}

    def _about_plans(self, request: Request, table: str, rest: str, body: bytes) -> Any:
        """Answer a request about plans, after the catalog has let the caller load the table."""
        rights, loaded = self._catalog.table(table, request.headers)
        owner = (table, caller(request.headers))
        match request.method, rest.split("/")[1:]:
            case "POST", ["plan"]:
                planned = self._planner.plan((table, rights), loaded, read_plan_request(body))
                return self._plans.answer(owner, planned)
            case "GET", ["plan", plan_id]:
                return self._plans.plan(owner, plan_id)
            case "DELETE", ["plan", plan_id]:
                return self._plans.drop(owner, plan_id)
            case "POST", ["tasks"]:
                task = read_json(body).get("plan-task")
                if not isinstance(task, str):
                    raise bad_request("the request names no plan-task")
                return self._plans.tasks(owner, task)
        raise unsupported(f"{request.method} is not supported for this path")

    async def _forwarded(self, request: Request, path: str, body: bytes) -> Response:
        from starlette.responses import StreamingResponse

        def send() -> Any:
            return self._catalog.forward(request.method, _target(request, path), request.headers, body)

        answer = await asyncio.get_running_loop().run_in_executor(self._gate.threads, send)
        return StreamingResponse(answer.body, answer.status, answer.headers)


def _path(request: Request) -> str:
    """Return the path as the client encoded it. Bytes that are not ASCII, which no client should send, are escaped."""
    raw: bytes = request.scope["raw_path"].partition(b"?")[0]
    return raw.decode("ascii") if raw.isascii() else quote(raw, safe="/%:@!$&'()*+,;=~")


def _may_write(request: Request) -> bool:
    """Return whether the catalog may have changed something for a request that got no answer."""
    match = _TABLE.fullmatch(_path(request))
    return not is_read(request.method) and not (match and match["rest"])


def _target(request: Request, path: str) -> str:
    query = request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
