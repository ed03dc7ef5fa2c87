"""Open obstore stores by URI, with the option names that deltalake and Polars also use."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parsieve._core import UnsupportedError

_PROVIDERS = ("aws_", "azure_", "google_")
# Options of the HTTP client. obstore takes them as a separate argument, and panics if they are among the others.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)

# What pyiceberg calls the options of obstore. Later names take precedence.
_OF_PYICEBERG = {
    "client.region": "aws_region",
    "client.access-key-id": "aws_access_key_id",
    "client.secret-access-key": "aws_secret_access_key",
    "client.session-token": "aws_session_token",
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.anonymous": "aws_skip_signature",
    "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
    "s3.proxy-uri": "proxy_url",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_key",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}
# How the options of each scheme begin. A catalog can have options of several stores.
_OF_SCHEMES = dict.fromkeys(("s3", "s3a"), ("s3.", "client.")) | dict.fromkeys(("abfs", "abfss"), ("adls.",))
# Options that say how a library writes, retries or logs, and not how to open the store, in lower case.
_OTHERS = frozenset(
    {
        "allow_unsafe_rename",
        "aws_ec2_metadata_disabled",
        "aws_endpoint_url_dynamodb",
        "aws_force_credential_load",
        "aws_region_dynamodb",
        "aws_s3_allow_unsafe_rename",
        "aws_s3_get_internal_server_error_retries",
        "aws_s3_locking_provider",
        "aws_s3_pool_idle_timeout_seconds",
        "aws_sts_pool_idle_timeout_seconds",
        "max_retries",
        "mount_allow_unsafe_rename",
        "object_store_concurrency_limit",
        "py-io-impl",
        "retry_timeout",
        "s3.connect-timeout",
        "s3.request-timeout",
        "s3.resolve-region",
    }
)
_OTHER_PREFIXES = ("backoff_config.", "delta_dynamo_", "dynamo_", "hoodie.")
_ENDPOINTS = ("endpoint", "endpoint_url")
# What pyiceberg reads as true.
_TRUE = ("y", "yes", "t", "true", "on", "1")
# An endpoint whose host has a name. Like pyarrow, parsieve puts no bucket before an IP address.
_NAMED_HOST = re.compile(r"(https?://)([^/:]*[a-z][^/:]*(?::\d+)?/*)", re.IGNORECASE)


def store_at(uri: str, options: Mapping[str, str] | None = None) -> Any:
    """Return the store whose root is a URI. `?` and `#` are part of the path.

    Raises:
        UnsupportedError: obstore is not installed or does not support the URI.
        TypeError: an option is not text.
        ValueError: obstore does not accept the options.
    """
    try:
        import obstore.store as stores
        from obstore.exceptions import BaseError
    except ImportError:
        raise UnsupportedError(f"{uri} needs the package obstore: pip install obstore") from None
    store_options: dict[str, Any] = {}
    client_options: dict[str, Any] = {}
    bucket = uri.partition("://")[2].partition("/")[0]
    for name, value in _of_obstore(options or {}, bucket).items():
        if not isinstance(value, str | bool):
            kind = type(value).__name__
            raise TypeError(f"{name} in storage_options must be text, not {kind}; to use its default, omit it")
        bare = name.lower()
        for provider in _PROVIDERS:
            bare = bare.removeprefix(provider)
        if bare in _ENDPOINTS and "://" not in str(value):
            raise ValueError(f"{name}={value!r} in storage_options has no scheme; write https://{value}")
        if bare in _CLIENT_OPTIONS:
            client_options[bare] = value
        else:
            store_options[name] = value
    from_url: Any = stores.from_url
    # obstore would ignore what follows these characters, and open another folder.
    address = uri.replace("?", "%3F").replace("#", "%23")
    try:
        return from_url(address, config=store_options, client_options=client_options or None)
    except BaseError as error:
        reason = str(error).partition("\n")[0]
        if options:
            hint = "Use the option names of obstore, such as aws_region, aws_access_key_id and aws_endpoint"
            # Only pyiceberg has dots in the names of such options.
            if of_pyiceberg := [name for name in store_options if "." in name]:
                hint = f"To use the option {of_pyiceberg[0]} of pyiceberg, open the table by pyiceberg's Table"
            raise ValueError(
                f"obstore cannot open {uri} with these storage_options: {reason.rstrip('.')}. {hint}"
            ) from error
        raise UnsupportedError(f"obstore cannot open {uri}: {reason}") from error


def known_options(properties: Mapping[str, Any], uri: str) -> dict[str, Any]:
    """Return the properties of a catalog of pyiceberg that `store_at` accepts for a URI."""
    of_scheme = _OF_SCHEMES.get(uri.partition("://")[0], ())
    return {name: value for name, value in properties.items() if name in _OF_PYICEBERG and name.startswith(of_scheme)}


def _of_obstore(options: Mapping[str, Any], bucket: str) -> dict[str, Any]:
    """Return the options of deltalake, hudi and pyiceberg with the names of obstore.

    obstore refuses names that it does not know, so unknown names stay as they are.
    """
    # Like pyiceberg, ignore empty texts.
    translated = {new: str(options[old]) for old, new in _OF_PYICEBERG.items() if options.get(old) not in (None, "")}
    is_virtual = translated.pop("aws_virtual_hosted_style_request", "").lower() in _TRUE
    endpoint = translated.get("aws_endpoint", "")
    if endpoint and "://" not in endpoint:
        translated["aws_endpoint"] = endpoint = f"https://{endpoint}"
    if endpoint.startswith("http://"):
        translated["aws_allow_http"] = "true"
    # obstore expects the bucket in the endpoint. Without an endpoint, AWS also accepts the bucket in the path.
    if is_virtual and "aws_endpoint" not in options and (host := _NAMED_HOST.fullmatch(endpoint)):
        translated |= {"aws_endpoint": f"{host[1]}{bucket}.{host[2]}", "aws_virtual_hosted_style_request": "true"}
    return translated | {name: value for name, value in options.items() if not _is_other(name)}


def _is_other(name: str) -> bool:
    return name in _OF_PYICEBERG or name.lower() in _OTHERS or name.lower().startswith(_OTHER_PREFIXES)


@contextmanager
def os_errors(where: object) -> Iterator[None]:
    """Raise errors of obstore as `OSError`, like other filesystems, with only the first line of the message."""
    try:
        yield
    except BaseException as error:
        # obstore panics if the environment variable of the endpoint is not a URL.
        if isinstance(error, OSError) or type(error).__module__ not in ("obstore.exceptions", "pyo3_runtime"):
            raise
        reason = str(error).partition("\n")[0]
        if " http://" in reason and reason.rstrip().endswith("builder error"):
            reason = (
                f"{reason.rstrip()}; to allow http://, set the option or environment variable AWS_ALLOW_HTTP to true"
            )
        # An OSError with a number means that the storage failed; one without means that the file's bytes are wrong.
        raise OSError(errno.EIO, f"{where}: {reason}") from error
