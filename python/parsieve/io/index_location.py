"""Where the index of a table is stored unless you name another place.

```text
lake/orders            Delta, Iceberg, Hudi  ->  lake/orders/_parsieve
lake/orders            a plain folder        ->  lake/.parsieve/orders
lake/orders/year=2026  one of its partitions ->  lake/.parsieve/orders%2Fyear=2026
```

No file name is safe below a plain folder: Polars reads all files there, also hidden ones, and so does DuckDB with
`orders/**`. `docs/design/index-location.md` has the details.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# In the root of a table whose format lists its data files.
BELOW = "_parsieve"
# Next to a plain folder: the folder of the indexes of all its siblings.
BESIDE = ".parsieve"


@dataclass(frozen=True, slots=True)
class Places:
    """Where the index of a table is stored, as `open_store` takes it."""

    # None if there is no place for it; `problem` then has the reason.
    home: Any
    # Where version 0.1 stored the index; None if that is the same place.
    before: Any = None
    problem: str = ""


def next_to(path: str, containers: int = 0) -> str | None:
    """Return the folder for the index of a plain folder, or None if the folder has no parent to store it in.

    Args:
        path: The folder, with `/` between its parts.
        containers: How many leading parts are buckets or the like, next to which nothing can be stored.
    """
    lead = "/" if path.startswith("/") else ""
    parts = path.strip("/").split("/") if path.strip("/") else []
    # Readers of the whole table read files next to its partitions, so the index of a partition is stored outside.
    end = next((at for at in range(containers, len(parts)) if _is_partition(parts[at])), len(parts))
    if end <= containers:
        return None
    parent, own = parts[: end - 1], "/".join(parts[end - 1 :])
    # Two folders never get the same name.
    mangled = own.replace("%", "%25").replace("/", "%2F")
    return lead + "/".join([*parent, BESIDE, mangled])


def next_to_local(folder: str) -> str | None:
    """Do the same for a local folder. Links are resolved, so each folder has only one index."""
    drive, path = os.path.splitdrive(os.path.realpath(folder))
    location = next_to(path.replace(os.sep, "/"))
    return None if location is None else drive + location


def next_to_uri(uri: str) -> str | None:
    """Do the same for a URI."""
    scheme, _, rest = uri.partition("://")
    netloc, _, path = rest.partition("/")
    is_path_style = netloc.endswith(".core.windows.net") or netloc.startswith(("s3.", "s3-"))
    location = next_to(path, int(scheme in ("http", "https") and is_path_style))
    return None if location is None else f"{scheme}://{netloc}/{location.lstrip('/')}"


def indexes_above(path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each parent folder of a file that is an indexed table, nearest first, with the path of its index."""
    for folder in path.parents:
        neighbor = next_to_local(str(folder))
        for index in [folder / BELOW, *([] if neighbor is None else [Path(neighbor)])]:
            if (index / "commits").is_dir():
                yield folder, index


def indexed_folder(path: Path) -> Path | None:
    """Return the nearest parent folder of a file that is an indexed table, or None."""
    return next((folder for folder, _ in indexes_above(path)), None)


def _is_partition(name: str) -> bool:
    column, sign, _ = name.partition("=")
    return bool(column and sign)
