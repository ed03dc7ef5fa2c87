"""Measure plans of tables of many files.

The first plan of a Delta table is compared with `deltalake`'s load of its log, in time and memory. The table has a log
and no data: the statistics of one column answer the point queries. Each measurement runs in a new process, and the
contenders take turns. Both read another table before the clock starts, so imports do not count.

Warm plans of that table, and of indexed folders of Parquet files, are divided into the freshness check and the rest. In
the folders the keys are in random order, and the index names row groups. The first plan of a new process includes the
imports, and is compared with the import of pyarrow.

    .venv/bin/python benches/python/many_files.py [--files 100000] [--warm-files 300000] [--rounds 5] [--save]
    .venv/bin/python benches/python/many_files.py --only folders [--folder-files 100 10000]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Files that one commit adds, and rows of a file.
PER_COMMIT = 1000
ROWS = 1000
# Targets: a first plan takes at most three times `deltalake`'s load, and 1 KB for each file; a warm plan 10 ms.
MOST_TIMES, MOST_BYTES, MOST_SECONDS = 3.0, 1024, 0.010
WARM_PLANS = 20
# Row groups of a file in a folder, and rows of a row group.
GROUPS, GROUP_ROWS = 4, 50
FOLDER_PLANS = 400
# Targets: a warm plan of a point on a hundred files, and a new process beyond its import of pyarrow.
MOST_POINT, MOST_STARTED = 0.0018, 0.080
_STATUS = Path("/proc/self/status")


def make_table(folder: Path, files: int, checkpoint: bool) -> Path:
    """Write the log of a table, as JSON commits alone, or with a checkpoint of the last version by `deltalake`."""
    from deltalake import DeltaTable

    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, start in enumerate(range(0, files, PER_COMMIT)):
        actions = list(_actions(start, min(files, start + PER_COMMIT)))
        lines = [json.dumps(action, separators=(",", ":")) for action in actions]
        (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")
    if checkpoint:
        DeltaTable(str(folder)).create_checkpoint()
    return folder


def _actions(start: int, end: int) -> Iterator[dict[str, Any]]:
    if not start:
        fields: list[dict[str, Any]] = [
            {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "amount")
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        yield {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
        about = {"id": str(uuid.UUID(int=1)), "format": {"provider": "parquet", "options": {}}, "configuration": {}}
        yield {"metaData": about | {"schemaString": schema, "partitionColumns": [], "createdTime": 1_700_000_000_000}}
    random_ = random.Random(start)
    yield {"commitInfo": {"timestamp": 1_700_000_000_000 + start, "operation": "WRITE"}}
    for number in range(start, end):
        stats = {
            "numRecords": ROWS,
            "minValues": {"id": number * ROWS},
            "maxValues": {"id": (number + 1) * ROWS - 1},
            "nullCount": {"id": 0},
        }
        name = f"part-{number % PER_COMMIT:05}-{uuid.UUID(int=random_.getrandbits(128))}-c000.snappy.parquet"
        yield {
            "add": {
                "path": name,
                "partitionValues": {},
                "size": 10_000 + number % 977,
                "modificationTime": 1_700_000_000_000 + number,
                "dataChange": True,
                "stats": json.dumps(stats, separators=(",", ":")),
            }
        }


def _load(folder: str) -> Callable[[], Any]:
    from deltalake import DeltaTable

    return lambda: DeltaTable(folder)


def _first_plan(folder: str) -> Callable[[], Any]:
    import parsieve as ps

    # No file is opened: the table has none, and the statistics say all.
    return lambda: ps.open_table(folder).plan(f"id = {5 * ROWS + 7}", row_groups=False).files


CONTENDERS = {"deltalake": _load, "parsieve": _first_plan}


def measure_first(name: str, tiny: str, folder: str) -> dict[str, float]:
    """Measure one contender in this process."""
    CONTENDERS[name](tiny)()
    run, before = CONTENDERS[name](folder), _forget_peak()
    started, worked = time.perf_counter(), time.process_time()
    answer = run()
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    if name == "parsieve" and len(answer) != 1:
        raise AssertionError(f"a point is in one file, not in {len(answer)}")
    return {"seconds": seconds, "work": work, "bytes": _peak() - before}


def measure_warm(folder: str) -> dict[str, float]:
    """Measure plans of a table that was planned before: with the freshness check, and the check alone."""
    import parsieve as ps
    from parsieve.lake import open_lake

    table = ps.open_table(folder)
    # The check of another object of the same table costs as much as that of the table's own.
    lake = open_lake(folder)
    lake.snapshot()
    table.plan("id = 7", row_groups=False)
    plans, checks = [], []
    for number in range(WARM_PLANS):
        started = time.perf_counter()
        lake.snapshot()
        checked = time.perf_counter()
        assert len(table.plan(f"id = {number * ROWS + 7}", row_groups=False).files) == 1
        plans.append(time.perf_counter() - checked)
        checks.append(checked - started)
    return {"plan": statistics.median(plans), "check": statistics.median(checks), "least": min(plans)}


def make_folder(folder: Path, files: int) -> Path:
    """Write a folder of Parquet files with keys in random order, and build an index whose units are row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import parsieve as ps

    folder.mkdir(parents=True)
    rows = GROUPS * GROUP_ROWS
    keys = list(range(files * rows))
    random.Random(1).shuffle(keys)
    for number in range(files):
        part = pa.table({"id": keys[number * rows : (number + 1) * rows], "amount": range(rows)})
        pq.write_table(part, folder / f"part-{number:05}.parquet", row_group_size=GROUP_ROWS)
    ps.open_table(str(folder)).build_index("id", "sieve", unit="row_group", progress=False)
    return folder


def measure_folder(folder: str, plans: str) -> dict[str, float]:
    """Measure warm plans of a point in an indexed folder: the freshness check, the rest, and access to the results.

    Seconds are medians of the processor time of this thread, so that other processes count less.
    """
    import parsieve as ps

    table, clock = ps.open_table(folder), time.thread_time
    keys = len(table.plan().files) * GROUPS * GROUP_ROWS
    seconds: dict[str, list[float]] = {"check": [], "plan": [], "files": [], "ranges": []}
    random_ = random.Random(2)
    started = time.perf_counter()
    for number in range(int(plans)):
        times = [clock()]
        # The first step of a plan. The plan repeats it, and finds no change.
        table.opened.snapshot()
        times.append(clock())
        plan = table.plan(f"id = {random_.randrange(keys)}")
        times.append(clock())
        files = plan.files
        times.append(clock())
        ranges = plan.row_ranges
        times.append(clock())
        assert files
        assert list(ranges) == files
        assert all(ranges.values())
        if number:
            for name, before, after in zip(seconds, times, times[1:], strict=False):
                seconds[name].append(after - before)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return medians | {"wall": (time.perf_counter() - started) / int(plans)}


def measure_start(folder: str, rounds: int) -> dict[str, float]:
    """Measure the first plan of a point in a new process, and the import of pyarrow alone, in turns."""
    programs = {
        "pyarrow": "import pyarrow",
        "plan": f"import parsieve as ps; ps.open_table({folder!r}).plan('id = 5').files",
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", program], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {name: statistics.median(values) for name, values in seconds.items()}


def _forget_peak() -> int:
    """Return how much memory this process has, and measure its peak from here on."""
    if not _STATUS.exists():
        return _peak()
    Path("/proc/self/clear_refs").write_text("5")
    return _peak("VmRSS")


def _peak(name: str = "VmHWM") -> int:
    if not _STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def in_a_process(*arguments: str, program: str = __file__) -> dict[str, float]:
    """Run one measurement of a bench in a separate process."""
    command = [sys.executable, program, "--measure", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def first_plans(folder: Path, tiny: Path, files: int, rounds: int) -> dict[str, Any]:
    """Measure all contenders on one table, in turns, and print them."""
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, runs in measured.items():
            runs.append(in_a_process("first", name, str(tiny), str(folder)))
    pairs = list(zip(measured["deltalake"], measured["parsieve"], strict=True))
    ratios = {kind: [ours[kind] / theirs[kind] for theirs, ours in pairs] for kind in ("seconds", "work")}
    least = {name: {kind: min(run[kind] for run in runs) for kind in runs[0]} for name, runs in measured.items()}
    case = {
        "files": files,
        "least": least,
        "times": statistics.median(ratios["seconds"]),
        "times_of_work": statistics.median(ratios["work"]),
        "bytes_per_file": statistics.median(run["bytes"] for run in measured["parsieve"]) / files,
    }
    for name, figures in least.items():
        per_file = figures["bytes"] / files
        print(
            f"  {name:10} {figures['seconds']:7.3f} s  {figures['work']:7.3f} s of work  {per_file:6.0f} bytes a file"
        )
    print(
        f"  parsieve takes {case['times']:.1f} times as long, {case['times_of_work']:.1f} times the work, "
        f"and {case['bytes_per_file']:.0f} bytes a file (medians; targets {MOST_TIMES:.0f} and {MOST_BYTES})"
    )
    return case


def delta_cases(root: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure first plans and warm plans of a Delta table, and print them."""
    cases: list[dict[str, Any]] = []
    tiny = make_table(root / "tiny", 1, checkpoint=True)
    for form in ("checkpoint", "commits"):
        folder = make_table(root / form, options.files, checkpoint=form == "checkpoint")
        print(f"{options.files:,} files, {form}")
        case = first_plans(folder, tiny, options.files, options.rounds)
        cases.append({"case": f"first plan, {form}"} | case)
    folder = make_table(root / "warm", options.warm_files, checkpoint=True)
    warm = in_a_process("warm", str(folder))
    print(
        f"{options.warm_files:,} files, warm\n  plan {warm['plan'] * 1e3:.1f} ms (least {warm['least'] * 1e3:.1f}; "
        f"target {MOST_SECONDS * 1e3:.0f} and the check), of which freshness check {warm['check'] * 1e3:.2f} ms"
    )
    cases.append({"case": "warm plan", "files": options.warm_files} | warm)
    return cases


def folder_case(root: Path, files: int, rounds: int) -> dict[str, Any]:
    """Measure warm and first plans of a point in an indexed folder, and print them."""
    folder = str(make_folder(root / f"folder-{files}", files))
    runs = [in_a_process("folder", folder, str(FOLDER_PLANS if files <= 1000 else 40)) for _ in range(rounds)]
    warm = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    started = measure_start(folder, rounds)
    plan, check, paths, ranges = (warm[name] * 1e3 for name in ("plan", "check", "files", "ranges"))
    print(
        f"{files:,} files in a folder, a point\n"
        f"  warm plan {plan:.2f} ms (target {MOST_POINT * 1e3:.1f} for 100 files), of which freshness check "
        f"{check:.2f} ms; then files {paths:.2f} ms, row ranges {ranges:.2f} ms\n"
        f"  new process {started['plan'] * 1e3:.0f} ms, {(started['plan'] - started['pyarrow']) * 1e3:.0f} ms more "
        f"than the import of pyarrow (target {MOST_STARTED * 1e3:.0f})"
    )
    return {"case": "point in a folder", "num_files": files, "started": started} | warm


def main() -> None:
    """Run the bench, or one measurement of it."""
    if sys.argv[1:2] == ["--measure"]:
        kind, *arguments = sys.argv[2:]
        measures: dict[str, Callable[..., dict[str, float]]] = {
            "first": measure_first,
            "warm": measure_warm,
            "folder": measure_folder,
        }
        print(json.dumps(measures[kind](*arguments)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--warm-files", type=int, default=300_000)
    parser.add_argument("--folder-files", type=int, nargs="*", default=[100, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("delta", "folders"), help="only the tables of this kind")
    parser.add_argument("--smoke", action="store_true", help="small: does it run, and are the answers right")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.files, options.warm_files, options.rounds, options.folder_files = 2000, 3000, 1, [20]
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="parsieve-many-files-") as root:
        if options.only != "delta":
            cases += [folder_case(Path(root), files, options.rounds) for files in options.folder_files]
        if options.only != "folders":
            cases += delta_cases(Path(root), options)
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.save:
        import record

        record.save("many-files", cases, ("deltalake", "pyarrow"))


if __name__ == "__main__":
    main()
