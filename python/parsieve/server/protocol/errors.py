"""Errors in the form of the Iceberg REST protocol."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """A request that gets an error: an HTTP status, the protocol's name of the error, and a message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    @property
    def body(self) -> dict[str, Any]:
        """The protocol's `ErrorModel`."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.status}}


def bad_request(message: str) -> RequestError:
    """Return the error for wrong input."""
    return RequestError(400, "BadRequestException", message)


def unsupported(message: str) -> RequestError:
    """Return the error for requests that this server does not answer."""
    return RequestError(406, "UnsupportedOperationException", message)


def not_authorized() -> RequestError:
    """Return the error for a missing or wrong token."""
    return RequestError(401, "NotAuthorizedException", "the request has no valid bearer token")


def no_table(name: str) -> RequestError:
    """Return the error for a table that does not exist."""
    return RequestError(404, "NoSuchTableException", f"there is no table {name}")


def no_namespace(name: str) -> RequestError:
    """Return the error for a namespace that does not exist."""
    return RequestError(404, "NoSuchNamespaceException", f"there is no namespace {name}")


def no_plan(plan_id: str) -> RequestError:
    """Return the error for an unknown plan."""
    return RequestError(404, "NoSuchPlanIdException", f"there is no plan {plan_id[:80]} of this table; plan again")


def no_task(task: str) -> RequestError:
    """Return the error for an unknown part of a plan."""
    return RequestError(404, "NoSuchPlanTaskException", f"there is no plan task {task[:80]} of this table; plan again")


def internal() -> RequestError:
    """Return the error for a failure of the server. Its reason is in the server's log only."""
    return RequestError(500, "InternalServerError", "the server failed to answer; its log has the reason")


def unknown_outcome(message: str) -> RequestError:
    """Return the error for a request that may have changed the catalog.

    Clients take 503 for a failed commit: they try again, or delete the files of a commit that succeeded. Some clients
    also send a request again after 502 and 504.
    """
    return RequestError(500, "CommitStateUnknownException", f"{message}; the catalog may have applied the request")


def bad_gateway(message: str) -> RequestError:
    """Return the error for an answer of the upstream catalog that cannot be read."""
    return RequestError(502, "BadGatewayException", message)


def too_busy(message: str) -> RequestError:
    """Return the error for requests that the server has no capacity or time for."""
    return RequestError(503, "ServiceUnavailableException", message)
