"""The engines of the demo: each reads the lake alone, and then only what parsieve keeps."""

from __future__ import annotations

import glob
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve.demo import lake

ALONE, WITH = "engine alone", "with parsieve"
# How often to run each query. The fastest run counts, so that caches are warm.
TURNS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """A question, answered by one engine in one way."""

    question: str
    engine: str
    way: str
    files: int
    num_bytes: int
    seconds: float
    rows: int


class Engine:
    """One way to read the lake."""

    name = ""

    def __init__(self, events: lake.Events) -> None:
        self._events = events

    def alone(self, where: str) -> int:
        """Return the rows that the engine finds without parsieve."""
        raise NotImplementedError

    def planned(self, table: ps.Table, where: str) -> int:
        """Plan with parsieve, and return the rows found in the kept files."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the engine's connection or session."""

    def ask(self, question: str, way: str, read: Callable[[], int], files: Sequence[str]) -> Answer:
        """Run a query a few times, and return the fastest run."""
        best, rows = float("inf"), 0
        for _ in range(TURNS):
            start = time.perf_counter()
            rows = read()
            best = min(best, time.perf_counter() - start)
        num_bytes = sum(Path(path).stat().st_size for path in files)
        return Answer(question, self.name, way, len(files), num_bytes, best, rows)


class Pyarrow(Engine):
    """A pyarrow dataset, which skips row groups by min/max statistics."""

    name = "pyarrow"

    def alone(self, where: str) -> int:
        """Return the rows that the engine finds without parsieve."""
        import pyarrow.dataset as pads

        from parsieve.predicate import parse, render

        dataset = pads.dataset(self._events.folder, format="parquet", exclude_invalid_files=False)
        return int(dataset.to_table(filter=render.to_pyarrow(parse(where, dataset.schema))).num_rows)

    def planned(self, table: ps.Table, where: str) -> int:
        """Plan with parsieve, and return the rows found in the kept files."""
        return int(table.plan(where).to_arrow().num_rows)


class Polars(Engine):
    """Polars on the folder, which skips row groups by min/max statistics."""

    name = "Polars"

    def alone(self, where: str) -> int:
        """Return the rows that the engine finds without parsieve."""
        import polars as pl
        import pyarrow.parquet as pq

        from parsieve.predicate import parse, render

        files = sorted(self._events.folder.glob("*.parquet"))
        condition = render.to_polars(parse(where, pq.read_schema(files[0])))
        return int(pl.scan_parquet(files, glob=False).filter(condition).collect().height)

    def planned(self, table: ps.Table, where: str) -> int:
        """Plan with parsieve, and return the rows found in the kept files."""
        return int(table.plan(where).to_polars().collect().height)


class DuckDB(Engine):
    """DuckDB on the folder, which skips row groups by min/max statistics, and by Bloom filters if files have them."""

    name = "DuckDB"

    def __init__(self, events: lake.Events) -> None:
        super().__init__(events)
        import duckdb

        self._con = duckdb.connect()
        self._con.execute("SET TimeZone = 'UTC'")

    def alone(self, where: str) -> int:
        """Return the rows that the engine finds without parsieve."""
        # Escape the folder's name, which may look like a pattern.
        files = self._con.read_parquet(f"{glob.escape(str(self._events.folder))}/*.parquet")
        return int(files.filter(where).to_arrow_table().num_rows)

    def planned(self, table: ps.Table, where: str) -> int:
        """Plan with parsieve, and return the rows found in the kept files."""
        return int(table.plan(where).to_duckdb(self._con).to_arrow_table().num_rows)

    def close(self) -> None:
        """Release the engine's connection or session."""
        self._con.close()


class Spark(Engine):
    """Spark on the folder, which skips row groups by min/max statistics, and by Bloom filters if files have them."""

    name = "Spark"

    def __init__(self, events: lake.Events, session: Any) -> None:
        super().__init__(events)
        self._session = session

    def alone(self, where: str) -> int:
        """Return the rows that the engine finds without parsieve."""
        return len(self._session.read.parquet(self._events.folder.absolute().as_uri()).where(where).collect())

    def planned(self, table: ps.Table, where: str) -> int:
        """Plan with parsieve, and return the rows found in the kept files."""
        from parsieve import spark as pss

        return len(pss.read(self._session, table, where).collect())

    def close(self) -> None:
        """Release the engine's connection or session."""
        self._session.stop()


def spark_session(say: Callable[[str], None]) -> Any:
    """Start a Spark session without the jars of table formats. If that fails, say why and return None."""
    if find_spec("pyspark") is None:
        say("Spark is not installed, so the demo leaves it out: pip install 'parsieve[spark]'")
        return None
    from parsieve import spark as pss

    say("Starting Spark ...")
    try:
        return pss.session(
            lakes=[],
            master="local[2]",
            memory="1g",
            # The demo writes nothing there.
            warehouse=tempfile.gettempdir(),
            config={"spark.ui.showConsoleProgress": False, "spark.sql.session.timeZone": "UTC"},
        )
    except (ps.ParsieveError, OSError, RuntimeError) as error:
        say(f"the demo leaves Spark out: {error}")
        return None
