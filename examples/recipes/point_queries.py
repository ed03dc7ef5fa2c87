"""Answer point queries over HTTP with FastAPI.

TABLE=orders COLUMN=order_id uvicorn --factory point_queries:make_app
"""

import os
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import PlainTextResponse

import parsieve as ps

MOST_KEYS = 100


def make_app(source: str | None = None, column: str | None = None) -> FastAPI:
    # Threads share the table, and each request uses what earlier ones have read.
    table = ps.open_table(source or os.environ["TABLE"])
    key_column = column or os.environ["COLUMN"]
    app = FastAPI(title="Point queries")

    # FastAPI runs functions that are not `async` in threads, so a request that reads does not block the others.
    @app.get("/rows")
    def rows(key: Annotated[list[int], Query(max_length=MOST_KEYS)]) -> dict[str, Any]:
        try:
            result = table.lookup(key_column, key)
        except ps.ConflictError as error:
            raise HTTPException(503, "the table is being replaced; try again") from error
        return {"rows": result.table.to_pylist(), "missing": result.missing.to_pylist()}

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> str:
        return ps.metrics().to_prometheus()

    return app
