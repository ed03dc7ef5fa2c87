"""Read encryption keys from a file, because arguments are visible to other users and in the shell's history."""

from __future__ import annotations

import base64
import binascii
import json
import os
import stat
import warnings
from pathlib import Path
from typing import Any

from parsieve import _core

NAMES = ("footer_key", "column_keys", "aad_prefix")


def read_key_bytes(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the keys as a dict of bytes for tables, because the libraries that read their rows take bytes."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        warnings.warn(f"other users can read the keys in {path}; to prevent that, run: chmod 600 {path}", stacklevel=3)
    try:
        data = json.loads(text)
    except ValueError:
        # The parser's own error would quote the file.
        raise ValueError(f"not a JSON file: {path}") from None
    if not isinstance(data, dict) or data.keys() - set(NAMES):
        raise ValueError(f"{path} must be a JSON object that contains only the keys {', '.join(NAMES)}")
    columns = data.get("column_keys") or {}
    if not isinstance(columns, dict):
        raise ValueError(f"column_keys in {path} must be a JSON object that maps column names to keys")
    footer, prefix = data.get("footer_key"), data.get("aad_prefix")
    return {
        "footer_key": None if footer is None else _key(footer, "footer_key", path),
        "column_keys": {column: _key(key, f"the key of {column!r}", path) for column, key in columns.items()},
        "aad_prefix": None if prefix is None else _bytes(prefix, "aad_prefix", path),
    }


def read_keys(path: str | os.PathLike[str]) -> _core.FileKeys:
    """Read the keys of an encrypted file from a JSON object with the names of `FileKeys`, in hex or base64.

    >>> import json, pathlib, tempfile
    >>> from parsieve.cli.keyfile import read_keys
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "keys.json")
    >>> _ = path.write_text(json.dumps({"footer_key": "30313233343536373839303132333435"}))
    >>> path.chmod(0o600)
    >>> read_keys(path)
    <parsieve.FileKeys: footer>
    >>> folder.cleanup()
    """
    return _core.FileKeys(**read_key_bytes(path))


def _key(text: Any, what: str, path: Path) -> bytes:
    key = _bytes(text, what, path)
    if len(key) not in (16, 24, 32):
        raise ValueError(f"{what} in {path} has {len(key)} bytes; an AES key has 16, 24 or 32")
    return key


def _bytes(text: Any, what: str, path: Path) -> bytes:
    if isinstance(text, str):
        try:
            return bytes.fromhex(text)
        except ValueError:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:
                pass
    raise ValueError(f"{what} in {path} is neither hex nor base64")
