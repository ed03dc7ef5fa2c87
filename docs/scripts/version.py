"""Show the version of the project in the header of every page. MkDocs calls this hook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CARGO = Path(__file__).resolve().parents[2] / "Cargo.toml"


def version() -> str:
    """Return the version that Cargo.toml states."""
    match = re.search(r'(?m)^version = "([^"]+)"$', CARGO.read_text(encoding="utf-8"))
    assert match is not None, "Cargo.toml has no version"
    return match[1]


def on_config(config: Any) -> Any:
    """Append the version to the name of the site."""
    config.site_name = f"{config.site_name} {version()}"
    return config
