"""What every request passes: its token, the limits, the log, and errors in the form of the protocol."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from parsieve.server.metrics import Requests
from parsieve.server.protocol.errors import RequestError, internal, not_authorized, too_busy, unknown_outcome
from parsieve.server.settings import Limits

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_LOGGER = logging.getLogger("parsieve.server")
# The status in the log of a request whose client closed the connection before it had sent all of it.
CLIENT_GONE = 499
# Answers a request, given its body. It runs in a thread, and returns a JSON document, or None for an empty answer.
Work = Callable[["Request", bytes], Any]


class Gate:
    """Runs the work of requests in threads, within limits."""

    def __init__(
        self,
        limits: Limits,
        requests: Requests,
        token: str | None = None,
        may_write: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        """Make a gate. `may_write` returns whether a request that took too long may have changed the catalog."""
        self.requests = requests
        self._may_write = may_write
        self._limits = limits
        self._token = token
        self.threads = ThreadPoolExecutor(limits.max_plans, "parsieve-serve")
        self._inside = 0

    def guard(self, work: Work) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint that does some work in a thread."""

        async def answer(request: Request) -> Response:
            body = await self.body(request)
            return json_response(await self.in_thread(lambda: work(request, body)), request.method)

        return self.watch(answer)

    def watch(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that checks the token and the limits, logs requests, and never shows a stack trace."""

        async def watched(request: Request) -> Response:
            started = time.monotonic()
            response = await self._answer(answer, request)
            route = getattr(request.scope.get("route"), "path", "")
            self.requests.answered(route, request.method, response.status_code, time.monotonic() - started)
            return response

        return watched

    async def _answer(self, answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        from starlette.requests import ClientDisconnect

        try:
            self._check_token(request)
            return await self._within_limits(answer, request)
        except RequestError as error:
            return json_response(error.body, status=error.status)
        except TimeoutError:
            slow = unknown_outcome if self._may_write(request) else too_busy
            late = slow(f"the request took more than {self._limits.seconds:g} s")
            return json_response(late.body, status=late.status)
        except ClientDisconnect:
            # The client is gone, so the status is only for the log.
            return json_response(None, status=CLIENT_GONE)
        except Exception:
            _LOGGER.exception("a request failed")
            return json_response(internal().body, status=500)

    async def _within_limits(self, answer: Callable[[Request], Awaitable[Response]], request: Request) -> Response:
        if self._inside >= self._limits.max_plans + self._limits.waiting:
            raise too_busy("too many requests are waiting; try again")
        self._inside += 1
        try:
            return await asyncio.wait_for(answer(request), self._limits.seconds)
        finally:
            self._inside -= 1

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            raise not_authorized()

    async def body(self, request: Request) -> bytes:
        """Return the body of a request, unless it is too long."""
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > self._limits.body:
                raise RequestError(
                    413, "BadRequestException", f"the body of the request is longer than {self._limits.body} bytes"
                )
            parts.append(part)
        return b"".join(parts)

    async def in_thread(self, work: Callable[[], Any]) -> bytes | None:
        """Do some work in a thread, and return its result as JSON."""

        def run() -> bytes | None:
            result = work()
            return None if result is None else json.dumps(result, allow_nan=False).encode()

        return await asyncio.get_running_loop().run_in_executor(self.threads, run)


def json_response(content: bytes | dict[str, Any] | None, method: str = "", status: int = 200) -> Response:
    """Return a JSON document as a response, or an empty response for None."""
    from starlette.responses import Response

    if content is None:
        return Response(status_code=204 if status == 200 else status)
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Response(b"" if method == "HEAD" else body, status, media_type="application/json")
