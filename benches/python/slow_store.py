"""Serves a folder as a slow object store: the part of S3 that readers need, with a delay and with counters.

    python benches/python/slow_store.py FOLDER --delay 0.02      # prints its port; the folder is the bucket "b"

Each request waits in its own thread, so simultaneous requests wait at the same time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import threading
import time
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

BUCKET = "b"
CHUNK_BYTES = 1 << 20


class Counts:
    """The number of requests, round trips and bytes since the last reset.

    A request is one round trip later than the latest of the requests that were answered before it arrived.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests = self.round_trips = self.num_bytes = 0

    def arrive(self) -> int:
        """Return the number of the round trip of a request that arrives now."""
        with self._lock:
            return self.round_trips + 1

    def add(self, num_bytes: int, round_trip: int) -> None:
        """Count one request, before its answer is sent, and the bytes of the answer."""
        with self._lock:
            self.requests += 1
            self.num_bytes += num_bytes
            self.round_trips = max(self.round_trips, round_trip)

    def reset(self) -> dict[str, int]:
        """Return the counts, and set them to zero."""
        with self._lock:
            counts = {"requests": self.requests, "round_trips": self.round_trips, "bytes": self.num_bytes}
            self.requests = self.round_trips = self.num_bytes = 0
            return counts


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD requests for objects, and listings."""

    protocol_version = "HTTP/1.1"
    # Set by `main`.
    root = Path()
    delay = 0.0
    counts = Counts()
    # The number of the round trip of the request that is being answered.
    round_trip = 0

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""

    def do_HEAD(self) -> None:
        """Send the headers of an object."""
        self.round_trip = self.counts.arrive()
        self._object(with_body=False)

    def do_GET(self) -> None:
        """Send an object or a range of it, a listing, or the counts."""
        self.round_trip = self.counts.arrive()
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        if parts.path == "/!counts":
            self._send(200, json.dumps(self.counts.reset()).encode(), {})
        elif "list-type" in query:
            time.sleep(self.delay)
            self._send(200, self._list(query), {"Content-Type": "application/xml"})
        else:
            self._object(with_body=True)

    def _list(self, query: dict[str, str]) -> bytes:
        """Return all objects below a prefix in one page; with a delimiter, objects and folders."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        entries, folders = [], {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder) / name
                key = path.relative_to(self.root).as_posix()
                if not key.startswith(prefix):
                    continue
                rest = key[len(prefix) :]
                if delimiter and delimiter in rest:
                    folders[prefix + rest.split(delimiter)[0] + delimiter] = True
                    continue
                state = path.stat()
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(state.st_mtime))
                entries.append(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                    f"<ETag>{escape(_tag(state))}</ETag><Size>{state.st_size}</Size></Contents>"
                )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(entries) + len(folders)}</KeyCount>"
            f"<MaxKeys>1000000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(sorted(entries))}{common}"
            "</ListBucketResult>"
        ).encode()

    def _object(self, with_body: bool) -> None:
        time.sleep(self.delay)
        name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            self._send(403, b"", {})
        elif not name or not path.is_file():
            # The bucket itself exists.
            self._send(404 if name else 200, b"", {})
        else:
            self._send_file(path, with_body)

    def _send_file(self, path: Path, with_body: bool) -> None:
        state = path.stat()
        start, end, status = 0, state.st_size, 200
        headers = {
            "ETag": _tag(state),
            "Last-Modified": formatdate(state.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
        }
        if requested := self.headers.get("Range", "").removeprefix("bytes="):
            first, _, last = requested.partition("-")
            start = int(first) if first else max(0, state.st_size - int(last))
            end = min(int(last) + 1 if first and last else state.st_size, state.st_size)
            status = 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{state.st_size}"
        self.counts.add(end - start if with_body else 0, self.round_trip)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(end - start)}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            with path.open("rb") as file:
                file.seek(start)
                while start < end:
                    chunk = file.read(min(CHUNK_BYTES, end - start))
                    self.wfile.write(chunk)
                    start += len(chunk)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if not self.path.startswith("/!"):
            self.counts.add(len(body), self.round_trip)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _tag(state: os.stat_result) -> str:
    return '"' + hashlib.md5(f"{state.st_size} {state.st_mtime_ns} {state.st_ino}".encode()).hexdigest() + '"'


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay", type=float, default=0.02, help="seconds before each answer")
    arguments = parser.parse_args()
    Handler.root, Handler.delay = arguments.folder, arguments.delay
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
