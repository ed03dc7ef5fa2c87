"""A small server with the S3 requests of tables: list, read, write on a condition or in parts, and delete."""

import hashlib
import io
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

KEYS = {"aws_access_key_id": "who", "aws_secret_access_key": "secret", "aws_region": "eu-west-1"}


@contextmanager
def s3_server(
    bucket: dict[str, bytes], forbidden: str = "nothing", failing: Collection[str] = ()
) -> Iterator[dict[str, str]]:
    """Serve the objects of a bucket, and yield the options of obstore.

    Listing the forbidden prefix is denied, and so is reading its objects. If a write changes a failing object, the
    client gets an error.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise, a body waits until the client has acknowledged the headers.
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = _unchunked(self.rfile)
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            is_chunked = "aws-chunked" in self.headers.get("Content-Encoding", "")
            return _unchunked(io.BytesIO(body)) if is_chunked else body

        def _list(self, prefix: str, delimiter: str) -> None:
            if prefix.startswith(forbidden):
                self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
                return
            names = {name: name[len(prefix) :] for name in sorted(bucket) if name.startswith(prefix)}
            folders = {below.partition(delimiter)[0] for below in names.values() if delimiter and delimiter in below}
            found = "".join(
                f"<Contents><Key>{escape(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>&quot;{_tag(bucket[name])}&quot;</ETag><Size>{len(bucket[name])}</Size></Contents>"
                for name, below in names.items()
                if not delimiter or delimiter not in below
            )
            for folder in sorted(folders):
                found += f"<CommonPrefixes><Prefix>{escape(prefix + folder + delimiter)}</Prefix></CommonPrefixes>"
            found += f"<KeyCount>{found.count('<Key>') + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>"
            text = f'<?xml version="1.0"?><ListBucketResult>{found}</ListBucketResult>'
            self._answer(200, text.encode())

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            name = unquote(url.path).partition("/bucket/")[2]
            if not name:
                query = parse_qs(url.query)
                self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
                return
            if name not in bucket or name.startswith(forbidden):
                self._answer(403 if name.startswith(forbidden) else 404)
                return
            data = bucket[name]
            headers = {"ETag": f'"{_tag(data)}"', "Last_Modified": formatdate(0, usegmt=True)}
            if self.command == "HEAD":
                self._answer(200, b"", Content_Length=str(len(data)), **headers)
                return
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if wanted is None:
                self._answer(200, data, **headers)
                return
            start, end = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            place = f"bytes {start}-{end}/{len(data)}"
            self._answer(206, data[start : end + 1], Content_Range=place, **headers)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            url = urlsplit(self.path)
            name = unquote(url.path).partition("/bucket/")[2]
            data = self._body()
            if "partNumber" in url.query:
                parts[name, int(parse_qs(url.query)["partNumber"][0])] = data
                self._answer(200, ETag=f'"{_tag(data)}"')
                return
            if name in bucket and "If-None-Match" in self.headers:
                self._answer(412)
                return
            expected = self.headers.get("If-Match")
            if expected is not None and expected.strip('"') != _tag(bucket[name]):
                self._answer(412)
                return
            bucket[name] = data
            if name in failing:
                self._answer(500)
                return
            self._answer(200, ETag=f'"{_tag(data)}"')

        def do_POST(self) -> None:
            """Begin or complete an upload in parts, or delete some objects."""
            url = urlsplit(self.path)
            name = unquote(url.path).partition("/bucket/")[2]
            body = self._body()
            if "uploads" in url.query:
                answer = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
            elif "uploadId" in url.query:
                bucket[name] = b"".join(parts.pop(key) for key in sorted(parts) if key[0] == name)
                answer = (
                    f"<CompleteMultipartUploadResult><ETag>{_tag(bucket[name])}</ETag></CompleteMultipartUploadResult>"
                )
            else:
                keys = re.findall(r"<Key>(.*?)</Key>", body.decode())
                for key in keys:
                    bucket.pop(unescape(key), None)
                deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
                answer = f"<DeleteResult>{deleted}</DeleteResult>"
            self._answer(200, answer.encode())

        def do_DELETE(self) -> None:
            bucket.pop(unquote(urlsplit(self.path).path).partition("/bucket/")[2], None)
            self._answer(204)

    parts: dict[tuple[str, int], bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield {**KEYS, "aws_endpoint": endpoint, "aws_allow_http": "true"}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _unchunked(body: io.BufferedIOBase) -> bytes:
    """Return the bytes of a body in which each chunk follows its length. Skip the lines after the last chunk."""
    chunks = []
    while count := int(body.readline().partition(b";")[0], 16):
        chunks.append(body.read(count))
        body.readline()
    while body.readline().strip():
        pass
    return b"".join(chunks)


def _tag(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
