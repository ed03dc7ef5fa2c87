"""`parsieve serve`: plan scans of Iceberg tables for engines that never load Python."""

from __future__ import annotations

import argparse
import math
import re

from parsieve.cli.parser import Commands, size_of


def add_command(commands: Commands) -> None:
    """Add the command to the parser."""
    serve = commands.add(
        "serve",
        _serve,
        "Plan scans of Iceberg tables for other engines",
        "Serves an Iceberg REST catalog in front of a SQL or REST catalog. It only reads the SQL catalog.",
        json=False,
    )
    serve.add_argument(
        "catalog", metavar="CATALOG_URI", help="a SQL or REST catalog: sqlite:///catalog.db, https://host/path"
    )
    serve.add_argument("--name", default="default", help="the catalog's name in its database (default: default)")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8181, help="the port to listen on (default: 8181)")
    serve.add_argument("--token-file", metavar="FILE", help="a file with the bearer token that requests need")
    serve.add_argument("--tls-cert", metavar="FILE", help="the TLS certificate; needs --tls-key")
    serve.add_argument("--tls-key", metavar="FILE", help="the private key of the certificate")
    serve.add_argument(
        "--own-storage",
        action="store_true",
        help="read manifests with the server's own credentials if a REST catalog returns none to the caller",
    )
    serve.add_argument(
        "--property", metavar="NAME=VALUE", action="append", default=[], help="a property of pyiceberg's catalog"
    )
    serve.add_argument(
        "--max-body", metavar="SIZE", type=size_of, default=4 << 20, help="largest body of a request (default: 4MiB)"
    )
    serve.add_argument(
        "--max-plans", metavar="N", type=_plans_of, default=8, help="plans made at the same time (default: 8)"
    )
    serve.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds_of, default=60.0, help="time limit for a request (default: 60)"
    )


def _serve(options: argparse.Namespace) -> int:
    from parsieve.server.run import Listening, read_token, serve
    from parsieve.server.settings import Limits

    limits = Limits(body=options.max_body, max_plans=options.max_plans, seconds=options.timeout)
    listening = Listening(options.host, options.port, options.tls_cert, options.tls_key, limits)
    token = None if options.token_file is None else read_token(options.token_file)
    properties = dict(_property(text) for text in options.property)
    serve(
        options.catalog,
        listening,
        token=token,
        name=options.name,
        options=properties,
        own_storage=options.own_storage,
    )
    return 0


def _plans_of(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of plans above 0")
    return int(text)


def _seconds_of(text: str) -> float:
    """Return a time limit. With 0 or NaN, every request would fail."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--property {text!r} has no value; write NAME=VALUE")
    return name, value
