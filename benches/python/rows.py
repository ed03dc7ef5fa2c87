"""Reads few rows of a lake of 20 million with parsieve, DuckDB, Lance, and the `parquet` crate as the floor.

    .venv/bin/python benches/python/rows.py --save [--folder FOLDER]

The questions are a unique id, a user, two seconds of late events, a thousand keys in one call, and everything, in two
lakes of the same rows: one with page indexes, and one with large row groups and no offset index. The program also
measures an object store, memory and a fresh process. All contenders must return the same rows. At the end, it prints
the targets, and whether they are met. See `benches/README.md`. `--folder` keeps the lakes for the next run.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import record

import parsieve as ps

sys.path.append(str(Path(__file__).resolve().parents[1] / "rows"))
import row_contenders as contenders
import row_lakes as lakes
import row_places as places
import row_targets as targets

ROWS, SMOKE_ROWS = 20_000_000, 20_000
KEYS = 1_000
# Large answers take longer, so there are fewer of them.
MOST_LARGE = 5
# The names of the parts of a run.
KINDS = {"id": lakes.ID, "user": lakes.USER, "time": lakes.TIME, "keys": lakes.KEYS, "everything": lakes.EVERYTHING}
MEMORY, FIRST_ROW, FAR = "memory", "first-row", "far"
PARTS = (*KINDS, MEMORY, FIRST_ROW, FAR)
LAKES = {"pages": lakes.PAGES, "groups": lakes.GROUPS}


class Bench:
    """One run: the lakes, the questions, and the processes that stay open."""

    def __init__(self, folder: Path, kept: Path, arguments: argparse.Namespace) -> None:
        """`folder` is removed after the run, unlike `kept`."""
        self.folder = folder
        self.rows = arguments.rows
        self.repeats = arguments.repeats
        self.earlier = arguments.earlier_reader
        self.site = arguments.old_site
        self.parts = arguments.only or PARTS
        names = [LAKES[name] for name in arguments.lake or LAKES]
        self.layouts = [lakes.Layout.of(name, kept, self.rows) for name in names]
        self.lance = lakes.write_lance(kept, self.rows)
        if self.lance is None:
            print("Lance is not installed")
        large = min(arguments.rounds, MOST_LARGE)
        keys = min(KEYS, self.rows // 100)
        self.questions = lakes.Truth(self.rows).questions(arguments.rounds, keys, large)
        self.floors = contenders.floors(arguments.features, arguments.smoke)

    def index(self, layout: lakes.Layout) -> Path:
        """Return the folder of the index of a lake."""
        return self.folder / f"index of {layout.name}"

    def run(self) -> Iterator[dict[str, Any]]:
        """Yield the cases."""
        with contenders.closing(self.floors):
            for layout in self.layouts:
                yield from self._lake(layout)
        layout = self.layouts[0]
        ids = self.questions[lakes.ID]
        if MEMORY in self.parts:
            yield shown(places.memory(layout, self.index(layout), [some[0] for some in self.questions.values()]))
        if FIRST_ROW in self.parts:
            yield shown(places.first_row(layout, self.index(layout), ids))
        for layout in self.layouts if FAR in self.parts else ():
            with tempfile.TemporaryDirectory(dir=self.folder) as name:
                yield shown(places.far(layout, Path(name), ids[: 2 * MOST_LARGE]))

    def _lake(self, layout: lakes.Layout) -> Iterator[dict[str, Any]]:
        num_bytes = layout.write()
        table = ps.open_table(layout.folder, index_location=self.index(layout))
        report = table.build_index(lakes.COLUMNS, kind="sieve", progress=False)
        assert not report.left_out, report.left_out
        size = sum(path.stat().st_size for path in self.index(layout).rglob("*") if path.is_file())
        print(f"\n{layout.name}: {self.rows:,} rows in {layout.num_files} files", end="")
        print(f", {num_bytes / 1e6:,.0f} MB, index of {size / 1e6:.1f} MB")
        about = {"case": "lake", "layout": layout.name, "rows": self.rows, "files": layout.num_files}
        yield about | {"bytes": num_bytes, "index_bytes": size}
        schema = table.schema
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        old = None
        if self.site is not None:
            place = self.folder / f"old index of {layout.name}"
            old = contenders.worker(layout.folder, place, lakes.COLUMNS, self.site)
        with contenders.closing(old):
            ours = contenders.Ours(table, connection, self.earlier)
            for kind in (kind for name, kind in KINDS.items() if name in self.parts):
                yield self._race(kind, layout, schema, ours, connection, old)

    def _race(
        self,
        kind: str,
        layout: lakes.Layout,
        schema: pa.Schema,
        ours: contenders.Ours,
        connection: duckdb.DuckDBPyConnection,
        old: contenders.Worker | None,
    ) -> dict[str, Any]:
        """Ask all questions of a kind in a lake."""
        known = [contenders.EXACT, contenders.EXACT_COLD]
        racers: dict[str, contenders.Contender] = ours.contenders()
        if old is not None and kind != lakes.EVERYTHING:
            racers[contenders.OLD] = contenders.old_version(old)
        racers[contenders.ALONE] = contenders.duckdb_alone(layout, connection)
        if kind in lakes.SINGLE:
            racers |= contenders.floor_contenders(self.floors, layout, [contenders.FILTERED, *known])
        else:
            racers |= contenders.pyarrow_scans(layout)
        if kind == lakes.EVERYTHING:
            # A table of everything is large, and Polars and DuckDB have nothing to skip.
            del racers[contenders.POLARS], racers[contenders.DUCKDB], racers[contenders.ALONE]
            racers |= contenders.pyarrow_everything(layout)
            racers |= contenders.floor_contenders(self.floors, layout, [contenders.ALL_TWO])
        elif kind not in lakes.SINGLE:
            racers |= ours.lookups()
            racers |= contenders.floor_contenders(self.floors, layout, [*known, contenders.EXACT_TWO])
        if self.lance is not None and layout.name == lakes.PAGES and kind != lakes.EVERYTHING:
            racers[contenders.LANCE] = contenders.lance_alone(self.lance)
        case = contenders.race(racers, self.questions[kind], schema, self.repeats)
        return shown({"case": "rows", "layout": layout.name} | case)


def shown(case: dict[str, Any]) -> dict[str, Any]:
    """Print a case, and return it."""
    print(f"\n{case['case']}, {case['layout']}", end="")
    if case["case"] == "rows":
        print(f": {case['kind']}, {case['rows']:,.1f} rows, {case['questions']} questions", end="")
        print(f" asked {case['repeats']} times" if case["repeats"] > 1 else "", "(medians in milliseconds)")
        for name, parts in case["milliseconds"].items():
            details = ", ".join(f"{part} {spent:,.2f}" for part, spent in parts.items()) if len(parts) > 1 else ""
            print(f"  {name:<36} {sum(parts.values()):>10,.2f}  {details}")
    else:
        print()
        for name, value in case.items():
            if isinstance(value, dict):
                print(f"  {name:<36} {value}")
    sys.stdout.flush()
    return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check that all results agree")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of each lake (default: %(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=25, help="questions of each kind, five large ones at most (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=1,
        help="ask each question so often, and count its fastest answer, on a busy machine; caches then help more",
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; repeat it for several")
    parser.add_argument("--lake", action="append", choices=LAKES, help="measure this lake (default: both)")
    parser.add_argument("--folder", type=Path, help="where the lakes are, or are written (default: a temporary folder)")
    parser.add_argument(
        "--old-site", type=Path, help="packages with version 0.1 to compare with; `make test-old` builds them"
    )
    parser.add_argument(
        "--earlier-reader", metavar="NAME=VALUE", help="an environment variable with which `to_arrow` reads as before"
    )
    parser.add_argument("--features", default="", help="features of Cargo.toml that are already built")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rows, arguments.rounds = SMOKE_ROWS, 2
    if arguments.save and (arguments.only or arguments.lake):
        parser.error("--save needs all parts and both lakes: a record would replace the complete one of the day")
    if arguments.rows % (lakes.PARTS * lakes.GROUPS_OF_A_FILE):
        parser.error(f"--rows must be a multiple of {lakes.PARTS * lakes.GROUPS_OF_A_FILE}")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        cases = list(Bench(Path(name), arguments.folder or Path(name), arguments).run())
    judged = targets.judge(cases, is_full=arguments.rows >= ROWS)
    print("\ntargets", *judged, sep="\n")
    if arguments.save:
        cases.append({"case": "targets", "targets": [target.to_dict() for target in judged]})
        packages = ["pyarrow", "duckdb", "polars", "numpy"]
        record.save("rows", cases, packages + ["pylance"] * (importlib.util.find_spec("lance") is not None))


if __name__ == "__main__":
    main()
