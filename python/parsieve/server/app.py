"""The read-only Iceberg REST catalog in front of a catalog that pyiceberg opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from parsieve.server.gate import Gate
from parsieve.server.metrics import Requests
from parsieve.server.plan_store import PlanStore
from parsieve.server.planner import Planner
from parsieve.server.protocol.errors import bad_request, no_namespace, unsupported
from parsieve.server.protocol.requests import read_json, read_plan_request
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog, Name

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

PLANNING = {"scan-planning-mode": "server"}
CLIENT_PLANNING = {"scan-planning-mode": "client"}
_TABLE = "/v1/namespaces/{namespace}/tables/{table}"
# The endpoints as the protocol names them, and the methods of `_Catalog` that answer them.
_ENDPOINTS = (
    ("GET", "/v1/config", "config"),
    ("GET", "/v1/namespaces", "namespaces"),
    ("GET", "/v1/namespaces/{namespace}", "namespace"),
    ("HEAD", "/v1/namespaces/{namespace}", "namespace"),
    ("GET", "/v1/namespaces/{namespace}/tables", "tables"),
    ("GET", _TABLE, "table"),
    ("HEAD", _TABLE, "exists"),
    ("POST", f"{_TABLE}/plan", "plan"),
    ("GET", f"{_TABLE}/plan/{{plan-id}}", "planned"),
    ("DELETE", f"{_TABLE}/plan/{{plan-id}}", "cancel"),
    ("POST", f"{_TABLE}/tasks", "tasks"),
)


def local_app(catalog: LocalCatalog, limits: Limits, token: str | None = None) -> Starlette:
    """Return the application for a catalog of pyiceberg. If there is a token, requests need it."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    gate = Gate(limits, Requests(), token)
    answers = _Catalog(catalog, PlanStore(limits.page_size))
    routes = [*open_routes(gate.requests), *_routes(gate, answers)]
    return Starlette(routes=routes, middleware=[Middleware(_EncodedPaths)])


class _EncodedPaths:
    """Leaves paths as clients encode them, so that a slash in a name does not divide it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        raw = scope.get("raw_path")
        if raw is not None:
            scope = {**scope, "path": raw.decode("ascii", "replace").partition("?")[0]}
        await self._app(scope, receive, send)


def open_routes(requests: Requests) -> list[Route]:
    """Return the routes that need neither a token nor the catalog."""
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def health(_: Request) -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    async def metrics(_: Request) -> PlainTextResponse:
        return PlainTextResponse(requests.text())

    return [Route("/health", health), Route("/metrics", metrics)]


def _routes(gate: Gate, answers: _Catalog) -> list[Route]:
    from starlette.routing import Route

    by_path: dict[str, dict[str, str]] = {}
    for method, path, name in _ENDPOINTS:
        by_path.setdefault(path.replace("plan-id", "plan_id"), {})[method] = name
    routes = []
    for path, names in by_path.items():
        for method, name in names.items():
            route = Route(path, gate.guard(getattr(answers, name)), methods=[method])
            # Starlette adds HEAD to GET.
            route.methods = {method}
            routes.append(route)
    everything = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    return [*routes, Route("/{path:path}", gate.guard(_refuse), methods=everything)]


def _refuse(request: Request, _: bytes) -> Any:
    raise unsupported(f"this catalog is read-only, and does not support {request.method} for this path")


class _Catalog:
    """The answers to the requests of a read-only catalog. Its methods run in threads."""

    def __init__(self, catalog: LocalCatalog, plans: PlanStore) -> None:
        self._catalog = catalog
        self._plans = plans
        self._planner = Planner()

    def config(self, _: Request, __: bytes) -> Any:
        """Return the endpoints, and the setting that lets the server plan scans."""
        endpoints = [f"{method} {_in_protocol(path)}" for method, path, name in _ENDPOINTS if name != "config"]
        # A default, so that a client can still choose to plan itself.
        return {"defaults": PLANNING, "overrides": {}, "endpoints": endpoints}

    def namespaces(self, request: Request, _: bytes) -> Any:
        """List namespaces."""
        parent = request.query_params.get("parent")
        return {"namespaces": self._catalog.namespaces(_parts(parent) if parent else ())}

    def namespace(self, request: Request, _: bytes) -> Any:
        """Describe a namespace."""
        name = _namespace(request)
        properties = self._catalog.properties(name)
        return None if request.method == "HEAD" else {"namespace": list(name), "properties": properties}

    def tables(self, request: Request, _: bytes) -> Any:
        """List the tables of a namespace."""
        names = self._catalog.tables(_namespace(request))
        return {"identifiers": [{"namespace": list(name[:-1]), "name": name[-1]} for name in names]}

    def table(self, request: Request, _: bytes) -> Any:
        """Load a table. The answer has no credentials: clients need their own rights to read files."""
        location, metadata = self._catalog.metadata(_table_name(request))
        return {"metadata-location": location, "metadata": metadata, "config": PLANNING}

    def exists(self, request: Request, _: bytes) -> Any:
        """Answer whether there is a table."""
        self._catalog.load(_table_name(request))

    def plan(self, request: Request, body: bytes) -> Any:
        """Plan a scan."""
        wanted, name = read_plan_request(body), _table_name(request)
        return self._plans.answer(name, self._planner.plan(name, self._catalog.load(name), wanted))

    def planned(self, request: Request, _: bytes) -> Any:
        """Return a plan again."""
        return self._plans.plan(_table_name(request), request.path_params["plan_id"])

    def cancel(self, request: Request, _: bytes) -> Any:
        """Forget a plan."""
        self._plans.drop(_table_name(request), request.path_params["plan_id"])

    def tasks(self, request: Request, body: bytes) -> Any:
        """Return a part of a plan."""
        task = read_json(body).get("plan-task")
        if not isinstance(task, str):
            raise bad_request("the request names no plan-task")
        return self._plans.tasks(_table_name(request), task)


def _in_protocol(path: str) -> str:
    return path.replace("/v1/", "/v1/{prefix}/", 1)


def _parts(namespace: str) -> Name:
    """Return the parts of a namespace. pyiceberg raises its own error for empty ones."""
    parts = tuple(namespace.split("\x1f"))
    if not all(map(str.strip, parts)):
        raise no_namespace(".".join(parts))
    return parts


def _namespace(request: Request) -> Name:
    return _parts(unquote(request.path_params["namespace"]))


def _table_name(request: Request) -> Name:
    return (*_namespace(request), unquote(request.path_params["table"]))
