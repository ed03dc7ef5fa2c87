"""Obstore stores by URI: options, errors, and what works without obstore."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

import parsieve as ps
from parsieve.io.object_store import known_options, store_at

# No server listens on this port.
ENDPOINT = "http://127.0.0.1:9"
KEYS = {"aws_access_key_id": "who", "aws_secret_access_key": "secret", "aws_region": "eu-west-1"}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for part in range(3):
        pq.write_table(pa.table({"id": range(part, 90, 3)}), tmp_path / f"{part}.parquet")
    return str(tmp_path)


@pytest.fixture
def unreachable() -> S3Store:
    return S3Store(
        "bucket",
        config={"endpoint": ENDPOINT, "region": "x", "access_key_id": "a", "secret_access_key": "b"},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_client_options_are_passed_to_obstore_separately() -> None:
    options = {**KEYS, "aws_endpoint": ENDPOINT, "AWS_ALLOW_HTTP": "true", "timeout": "5s"}
    store = store_at("s3://bucket/events", options)
    assert store.client_options == {"allow_http": "true", "timeout": "5s"}
    assert store.config["endpoint"] == ENDPOINT
    assert "access_key_id" in store.config


@pytest.mark.parametrize(
    ("endpoint", "is_virtual", "translated"),
    [
        ("http://minio:9000", "false", "http://minio:9000"),
        ("http://minio:9000", "yes", "http://bucket.minio:9000"),
        ("https://oss.example.com/", True, "https://bucket.oss.example.com/"),
        ("https://oss.example.com", "", "https://oss.example.com"),
        # Nothing can precede an IP address.
        ("http://127.0.0.1:9000", "true", "http://127.0.0.1:9000"),
        ("minio:9000", None, "https://minio:9000"),
    ],
)
def test_an_endpoint_of_pyiceberg(endpoint: str, is_virtual: Any, translated: str) -> None:
    """Unlike pyiceberg, obstore puts no bucket before the host, and panics without a scheme."""
    options = {**KEYS, "s3.endpoint": endpoint, "s3.force-virtual-addressing": is_virtual}
    config = store_at("s3://bucket/events", options).config
    assert config["endpoint"] == translated
    assert ("virtual_hosted_style_request" in config) == ("bucket." in translated)
    # The endpoint of obstore takes precedence, and is complete.
    config = store_at("s3://bucket/events", options | {"aws_endpoint": ENDPOINT}).config
    assert config["endpoint"] == ENDPOINT
    assert "virtual_hosted_style_request" not in config


@pytest.mark.parametrize(
    ("uri", "names"),
    [
        ("s3a://bucket/t", {"s3.region", "client.region"}),
        ("abfss://c@account.dfs.core.windows.net/t", {"adls.account-name"}),
        ("gs://bucket/t", set()),
        ("hdfs://host/t", set()),
    ],
)
def test_a_store_gets_only_its_own_options_of_a_catalog(uri: str, names: set[str]) -> None:
    """obstore refuses the options of other stores, so the table could not be opened."""
    properties = {"uri": "sqlite://", "py-io-impl": "x", "s3.region": "x", "client.region": "x", "s3.role-arn": "x"}
    assert known_options(properties | {"adls.account-name": "account"}, uri).keys() == names


def test_an_endpoint_without_a_scheme_is_refused() -> None:
    for name in ("aws_endpoint", "AWS_ENDPOINT_URL", "endpoint"):
        with pytest.raises(ValueError, match=f"{name}='minio:9000' .* write https://minio:9000"):
            ps.open_table("s3://bucket/events", storage_options={**KEYS, name: "minio:9000"})


def test_an_endpoint_of_the_environment_without_a_scheme_is_an_os_error(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore panics."""
    for name, value in {**KEYS, "aws_endpoint": "127.0.0.1:9"}.items():
        monkeypatch.setenv(name.upper(), value)
    plan = ps.open_table(folder, index_location="s3://bucket/index").plan("id = 7")
    assert "in doubt: the index cannot be used: s3://bucket/index" in plan.explain().replace("[Errno 5] ", "")


def test_a_refused_http_address_names_the_option() -> None:
    """obstore only says: builder error."""
    with pytest.raises(OSError, match=r"to allow http://, set the option .* AWS_ALLOW_HTTP to true"):
        ps.open_table("s3://bucket/events", storage_options={**KEYS, "aws_endpoint": ENDPOINT})


@pytest.mark.parametrize(("name", "value"), [("timeout", 5), ("aws_session_token", None)])
def test_an_option_that_is_not_text_is_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} in storage_options must be text, not {type(value).__name__};"):
        ps.open_table("s3://bucket/events", storage_options={**KEYS, name: value})


def test_an_error_names_an_option_that_obstore_does_not_know() -> None:
    with pytest.raises(ValueError, match=r"storage_options: .*'endpoint_uri'.* such as aws_region") as caught:
        ps.open_table("s3://bucket/events", storage_options={**KEYS, "endpoint_uri": ENDPOINT})
    assert "\n" not in str(caught.value)


def test_an_unreachable_table_raises_an_os_error_of_one_line(unreachable: S3Store) -> None:
    with pytest.raises(OSError, match="events: ") as caught:
        ps.open_table((unreachable, "events"), format="parquet").plan("id = 7")
    assert "\n" not in str(caught.value)


def test_an_unreachable_index_skips_nothing(folder: str, unreachable: S3Store) -> None:
    plan = ps.open_table(folder, index_location=(unreachable, "index")).plan("id = 7")
    assert len(plan.files) == 3
    assert "in doubt: the index cannot be used: " in plan.explain()
    assert plan.to_arrow().num_rows == 1


def test_an_index_on_a_filesystem_with_its_own_errors_skips_nothing(folder: str) -> None:
    """Filesystems of fsspec raise errors of their clients, such as botocore's EndpointConnectionError."""
    memory = pytest.importorskip("fsspec.implementations.memory")

    class ClientError(Exception):
        pass

    class Unreachable(memory.MemoryFileSystem):  # type: ignore[misc, name-defined]
        def ls(self, path: str, **_: Any) -> Any:
            raise ClientError("no route to the host")

    plan = ps.open_table(folder, index_location=(Unreachable(), "index")).plan("id = 7")
    assert len(plan.files) == 3
    assert "in doubt: the index cannot be used: [Errno 5] index: ClientError: no route to the host" in plan.explain()


def test_unreachable_filters_raise_an_os_error(unreachable: S3Store) -> None:
    with pytest.raises(OSError, match=r"events/a\.parquet: "):
        ps.open_filters((unreachable, "events/a.parquet"))


def test_a_table_on_a_filesystem_without_obstore_support_is_planned_but_not_indexed() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for part in range(3):
        with memory.open(f"/lake/unknown-to-obstore/{part}.parquet", "wb") as file:
            pq.write_table(pa.table({"id": range(part, 90, 3)}), file)
    table = ps.open_table("memory://lake/unknown-to-obstore")
    assert table.plan("id = 7").to_arrow().num_rows == 1
    with pytest.raises(ps.UnsupportedError, match=r"can only be read: obstore cannot open memory://"):
        table.build_index("id", kind="sieve")
    assert not [name for name in memory.find("/lake") if "parsieve" in name and "unknown-to-obstore" in name]


WITHOUT = """
import sys
sys.modules["obstore"] = None
import fsspec, pyarrow as pa, pyarrow.parquet as pq
import parsieve as ps

with fsspec.open("memory://lake/t/0.parquet", "wb") as file:
    pq.write_table(pa.table({"id": [7, 8]}), file)
table = ps.open_table("memory://lake/t")
print(table.plan("id = 7").to_arrow().num_rows, table.plan("id = 9").files)
build = lambda: table.build_index("id", kind="sieve")
for ask in (build, lambda: ps.open_table("s3://bucket", storage_options={"a": "b"})):
    try:
        ask()
    except (ps.UnsupportedError, ValueError) as error:
        print(error)
"""


def test_tables_are_planned_without_obstore() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=500)
    rows, build, options = done.stdout.splitlines()
    assert rows == "1 []"
    assert "can only be read: memory://lake/.parsieve/t needs the package obstore: pip install obstore" in build
    assert "s3://bucket needs the package obstore: pip install obstore; or pass a (filesystem, path) pair" in options
