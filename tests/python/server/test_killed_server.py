"""A client of a server that dies gets an error, and never a part of the rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from support.serving import client, sql_catalog

_TESTS = Path(__file__).parents[1]
_PROGRAM = _TESTS / "support" / "programs" / "serve_in_parts.py"


@pytest.mark.parametrize("parts", [0, 1, 2])
def test_a_client_of_a_killed_server_gets_an_error(tmp_path: Path, parts: int) -> None:
    catalog = sql_catalog(tmp_path)
    orders = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    for number in range(6):
        orders.append(pa.table({"id": [number]}))
    catalog.close()
    path = os.pathsep.join([str(_TESTS), *sys.path])
    server = subprocess.Popen(
        [sys.executable, str(_PROGRAM), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
    )
    with server:
        assert server.stdout is not None
        served = client(f"http://127.0.0.1:{server.stdout.readline().strip()}")
        table = served.load_table("shop.orders")
        assert len(table.scan().to_arrow()) == 6
        answers: list[Any] = []

        def kill(response: requests.Response, **_: Any) -> None:
            answers.append(response)
            if len(answers) == parts + 1:
                server.kill()
                server.wait()

        served._session.hooks["response"].append(kill)
        # The server may die before or after it has sent the beginning of an answer.
        with pytest.raises((requests.ConnectionError, requests.exceptions.ChunkedEncodingError)):
            table.scan().to_arrow()
        assert len(answers) == parts + 1
