"""First plans of tables with up to 1.5 million files, compared with the least work that any reader has to do.

Delta is compared with `deltalake`'s load of the log, Iceberg with pyiceberg's reading of all manifests, and an indexed
folder with `os.scandir` and `stat`. Each measurement runs in a new process, and the contenders take turns. The logs and
manifests describe files that do not exist. The files of folders are copies of small Parquet files.

`--save` adds to the record of the same commit, so that the cases can run one after another.

The freshness check is part of every plan. Its time is also reported alone, for a table that was planned before.

`index_life.py` measures an index of as many files.

    .venv/bin/python benches/python/million_files.py [--files 10000 100000 1000000] [--rounds 3] [--save]
    .venv/bin/python benches/python/million_files.py --only iceberg --files 1500000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import many_files

ROWS = many_files.ROWS
# Entries of a manifest, and files of a subfolder.
PER_MANIFEST, PER_FOLDER = 10_000, 10_000
# The most times that a first plan may take longer than the other contender.
TARGETS = {"delta-checkpoint": 2.0, "delta-commits": 2.0, "iceberg": 1.5, "folder": 1.2}
KEY = 5 * ROWS + 7


def make_iceberg(folder: Path, files: int) -> Path:
    """Write the metadata and the manifests of a table whose files do not exist."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    folder.mkdir(parents=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("n")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "amount", LongType()))
    properties = {"format-version": "2", "commit.manifest-merge.enabled": "false"}
    table = catalog.create_table("n.t", schema, properties=properties)
    for start in range(0, files, PER_MANIFEST):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in range(start, min(files, start + PER_MANIFEST)):
                low, high = (to_bytes(LongType(), key) for key in (number * ROWS, (number + 1) * ROWS - 1))
                append.append_data_file(
                    DataFile.from_args(
                        _table_format_version=2,
                        content=DataFileContent.DATA,
                        file_path=f"{table.location()}/data/part-{number:08}-{uuid.UUID(int=number)}.parquet",
                        file_format=FileFormat.PARQUET,
                        partition=_no_partition(),
                        record_count=ROWS,
                        file_size_in_bytes=10_000 + number % 977,
                        column_sizes={1: 4000, 2: 4000},
                        value_counts={1: ROWS, 2: ROWS},
                        null_value_counts={1: 0, 2: 0},
                        nan_value_counts={},
                        lower_bounds={1: low},
                        upper_bounds={1: high},
                        split_offsets=[4],
                        sort_order_id=None,
                        spec_id=0,
                        key_metadata=None,
                        equality_ids=None,
                    )
                )
    return Path(table.metadata_location.removeprefix("file://"))


def _no_partition() -> Any:
    from pyiceberg.typedef import Record

    return Record()


def make_folder(folder: Path, files: int) -> Path:
    """Write folders of small Parquet files, and build an index of their keys.

    Most files have the same rows, because only the paths and the tokens of files matter to the first plan.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    import parsieve as ps
    from parsieve.lake.folder.table import ParquetDir

    for start in range(0, files, PER_FOLDER):
        place = folder / f"part={start // PER_FOLDER}"
        place.mkdir(parents=True)
        small = folder.parent / "small.parquet"
        pq.write_table(pa.table({"id": pa.array([start], pa.int64())}), small, compression="none")
        data = small.read_bytes()
        for number in range(start, min(files, start + PER_FOLDER)):
            (place / f"part-{number:08}.parquet").write_bytes(data)

    class MadeUp(ParquetDir):
        """A folder whose files are not read."""

        def read_keys(self, file_slice: Any, columns: Any) -> Any:
            yield pa.record_batch(
                {"id": pa.array([int(Path(file_slice.group).stem.removeprefix("part-"))], pa.int64())}
            )

    ps.Table(MadeUp(str(folder))).build_index("id", "sieve", unit="file", pages=False, progress=False)
    return folder


def _read_manifests(place: str) -> Callable[[], Any]:
    from pyiceberg.table import StaticTable
    from pyiceberg.utils.concurrent import ExecutorFactory

    def read() -> int:
        table = StaticTable.from_metadata(place)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        pool = ExecutorFactory.get_or_create()
        entries = pool.map(lambda manifest: manifest.fetch_manifest_entry(table.io), snapshot.manifests(table.io))
        return sum(map(len, list(entries)))

    return read


def _stat_all(folder: str) -> Callable[[], Any]:
    def read() -> list[os.stat_result]:
        found, folders = [], [folder]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders.append(entry.path)
                    else:
                        found.append(entry.stat())
        return found

    return read


def _first_plan(place: str) -> Callable[[], Any]:
    import parsieve as ps

    def plan() -> int:
        key = f"id = {KEY}" if place.endswith(".json") or Path(place, "_delta_log").exists() else "id = 0"
        return len(ps.open_table(place).plan(key, row_groups=False).files)

    return plan


CONTENDERS: dict[str, Callable[[str], Callable[[], Any]]] = {
    "deltalake": many_files.CONTENDERS["deltalake"],
    "pyiceberg": _read_manifests,
    "scandir": _stat_all,
    "parsieve": _first_plan,
}


def measure_first(name: str, tiny: str, place: str) -> dict[str, float]:
    """Measure one contender in this process, which has read another table before."""
    CONTENDERS[name](tiny)()
    run, before = CONTENDERS[name](place), many_files._forget_peak()
    started, worked = time.perf_counter(), time.process_time()
    answer = run()
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    if name == "parsieve" and not answer:
        raise AssertionError("the key is in a file")
    return {"seconds": seconds, "work": work, "bytes": many_files._peak() - before}


def measure_check(place: str) -> dict[str, float]:
    """Measure the freshness check of a table that was read before."""
    from parsieve.lake import open_lake

    lake = open_lake(place)
    lake.snapshot()
    times = []
    for _ in range(3):
        started = time.process_time()
        lake.snapshot()
        times.append(time.process_time() - started)
    return {"check": statistics.median(times)}


def in_a_process(*arguments: str) -> dict[str, float]:
    """Run one measurement in a separate process."""
    return many_files.in_a_process(*arguments, program=__file__)


def compare(case: str, tiny: str, place: str, files: int, rounds: int) -> dict[str, Any]:
    """Measure a first plan and the other contender in turns, and print them."""
    other = {"iceberg": "pyiceberg", "folder": "scandir"}.get(case, "deltalake")
    measured: dict[str, list[dict[str, float]]] = {other: [], "parsieve": []}
    for _ in range(rounds):
        for name, runs in measured.items():
            runs.append(in_a_process("first", name, tiny, place))
    pairs = list(zip(*measured.values(), strict=True))
    times = {kind: statistics.median(ours[kind] / theirs[kind] for theirs, ours in pairs) for kind in pairs[0][0]}
    least = {name: {kind: min(run[kind] for run in runs) for kind in runs[0]} for name, runs in measured.items()}
    check = in_a_process("check", place)["check"]
    print(f"{case}, {files:,} files (target {TARGETS[case]} times)")
    for name, figures in least.items():
        print(
            f"  {name:10} {figures['seconds']:7.2f} s  {figures['work']:7.2f} s of work  "
            f"{figures['bytes'] / files:6.0f} bytes a file"
        )
    print(f"  {times['seconds']:.2f} times as long, {times['work']:.2f} times the work; check {check * 1e3:.1f} ms")
    return {"case": case, "files": files, "least": least, "times": times, "check": check, "target": TARGETS[case]}


def make(case: str, folder: Path, files: int) -> str:
    """Write a table, and return what opens it."""
    if case == "iceberg":
        return str(make_iceberg(folder, files))
    if case == "folder":
        return str(make_folder(folder / "table", files))
    return str(many_files.make_table(folder, files, checkpoint=case != "delta-commits"))


def with_earlier(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the other cases of today's record, if it is of the same commit."""
    import record

    paths = sorted((record.ROOT / "benches" / "results").glob("million-files-python-*.json"))
    earlier: dict[str, Any] = json.loads(paths[-1].read_text()) if paths else {"commit": ""}
    if earlier["commit"] != record.output("git", "rev-parse", "HEAD"):
        return cases
    measured = {(case["case"], case["files"]) for case in cases}
    kept = [case for case in earlier["cases"] if (case["case"], case["files"]) not in measured]
    return sorted([*kept, *cases], key=lambda case: ([*TARGETS].index(case["case"]), case["files"]))


def main() -> None:
    """Run the bench, or one measurement of it."""
    if sys.argv[1:2] == ["--measure"]:
        kind, *arguments = sys.argv[2:]
        measures: dict[str, Callable[..., Any]] = {
            "first": measure_first,
            "check": measure_check,
        }
        print(json.dumps(measures[kind](*arguments)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=TARGETS, nargs="*", default=list(TARGETS))
    parser.add_argument("--smoke", action="store_true", help="small: does it run, and are the answers right")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.files, options.rounds = [2000], 1
    cases = []
    with tempfile.TemporaryDirectory(prefix="parsieve-million-files-") as root:
        for case in options.only:
            tiny = make(case, Path(root, case, "tiny"), 10)
            for files in options.files:
                folder = Path(root, case, str(files))
                place = make(case, folder, files)
                cases.append(compare(case, tiny, place, files, options.rounds))
                shutil.rmtree(folder)
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.save:
        import record

        record.save("million-files", with_earlier(cases), ("deltalake", "pyiceberg", "pyarrow"))


if __name__ == "__main__":
    main()
