"""The life of an index of a Delta table with up to 1.5 million files.

The files do not exist, and their keys are made up. The program does what an operator does. It builds the index, plans
with it, updates it after a commit that replaced one percent of the files, compacts it, and expires all versions but the
newest. Then it plans with a copy of the table and its index, with a copy that was interrupted, and again after a new
build there. Each step runs in a new process, whose peak memory is reported. Each plan must keep the file that has
the key.

    .venv/bin/python benches/python/index_life.py [--files 10000 100000 1000000 1500000] [--save]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import many_files

# The most bytes of a process.
MOST_BYTES = 4 << 30
# Keys of a file, and the share of the files that an update replaces.
KEYS, REPLACED = 4, 100
SCATTER = 0x9E3779B97F4A7C15


def keys_of(path: str) -> list[int]:
    """Return the keys of a file that does not exist. They are scattered, so that minima and maxima skip no files."""
    first = int("".join(path.split("-")[2:4]), 16) * KEYS
    return [(first + number) * SCATTER % (1 << 62) for number in range(KEYS)]


def replace_some(place: str) -> None:
    """Commit a version that removes some files, and adds as many."""
    version = _last(place) + 1
    removed = [add for at in range(0, version, REPLACED) for add in _actions_of(place, at)]
    added = [add | {"path": f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"} for add in removed]
    actions: list[dict[str, Any]] = [
        {"remove": {"path": add["path"], "deletionTimestamp": 1_700_000_000_000, "dataChange": True}} for add in removed
    ]
    lines = [json.dumps(action) for action in [*actions, *({"add": add} for add in added)]]
    Path(place, "_delta_log", f"{version:020}.json").write_text("\n".join(lines) + "\n")


def _actions_of(place: str, version: int) -> list[dict[str, Any]]:
    lines = Path(place, "_delta_log", f"{version:020}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def _last(place: str) -> int:
    return max(int(path.stem) for path in Path(place, "_delta_log").glob("*.json") if path.stem.isdigit())


def copy_table(place: str, target: str) -> None:
    """Copy the log and the index of a table."""
    shutil.copytree(place, target)
    shutil.copytree(f"{place}-index", f"{target}-index")


def interrupt_copy(place: str) -> None:
    """Remove the segments, as if the copy of an index had been interrupted before it reached this last folder."""
    shutil.rmtree(Path(f"{place}-index", "segments"))


def measure(step: str, place: str) -> dict[str, float]:
    """Measure one step in this process."""
    import pyarrow as pa

    import parsieve as ps
    from parsieve.lake.delta.table import Delta

    class MadeUp(Delta):
        """A Delta table whose files have made-up keys in a column without statistics."""

        def read_keys(self, file_slice: Any, columns: Any) -> Any:
            yield pa.record_batch({"amount": pa.array(keys_of(file_slice.group), pa.int64())})

    table = ps.Table(MadeUp(place), index_location=f"{place}-index")
    path = _actions_of(place, _last(place))[-1]["path"]
    condition = f"amount = {keys_of(path)[0]}"
    options: dict[str, Any] = {"unit": "file", "keep_keys": True, "pages": False, "progress": False, "threads": 1}
    steps: dict[str, Callable[[], Any]] = {
        "build": lambda: table.build_index("amount", "sieve", **options),
        "plan": lambda: table.plan(condition, row_groups=False).files,
        "update": lambda: table.update_index(progress=False, compact=False, threads=1),
        "compact": lambda: table.compact_index(progress=False, threads=1),
        "expire": lambda: table.expire_index(older_than=0),
    }
    before = many_files._forget_peak()
    started, worked = time.perf_counter(), time.process_time()
    answer = steps[step]()
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    measured = {"seconds": seconds, "work": work, "bytes": many_files._peak(), "before": before}
    if step == "plan":
        if f"{place}/{path}" not in answer:
            raise AssertionError(f"the key is in {path}, but the plan does not keep this file")
        measured["kept"] = len(answer)
    return measured


def live(place: str, files: int) -> dict[str, Any]:
    """Measure the life of an index, and print it."""
    print(f"{files:,} files (target {MOST_BYTES >> 30} GiB)")
    steps: dict[str, dict[str, float]] = {}
    copied = f"{place}-copy"

    def take(name: str, step: str, where: str = place) -> None:
        steps[name] = done = many_files.in_a_process(step, where, program=__file__)
        kept = f"  keeps {done['kept']:,.0f} files" if "kept" in done else ""
        print(
            f"  {name:26} {done['seconds']:7.1f} s  {done['work']:7.1f} s of work  "
            f"{done['bytes'] / 2**20:6,.0f} MiB{kept}",
            flush=True,
        )

    take("build", "build")
    take("plan", "plan")
    replace_some(place)
    take("update", "update")
    take("plan with the update", "plan")
    take("compact", "compact")
    take("expire", "expire")
    copy_table(place, copied)
    take("plan with a copy", "plan", copied)
    interrupt_copy(copied)
    take("plan with a partial copy", "plan", copied)
    take("build again", "build", copied)
    take("plan after the repair", "plan", copied)
    return {"files": files, "steps": steps, "target": MOST_BYTES}


def main() -> None:
    """Run the bench, or one step of it."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000, 1_000_000, 1_500_000])
    parser.add_argument("--smoke", action="store_true", help="small: does it run, and do plans keep the right file")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    cases = []
    with tempfile.TemporaryDirectory(prefix="parsieve-index-life-") as root:
        for files in [2000] if options.smoke else options.files:
            place = many_files.make_table(Path(root, str(files)), files, checkpoint=True)
            cases.append(live(str(place), files))
            for folder in Path(root).iterdir():
                shutil.rmtree(folder)
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.save:
        import record

        record.save("index-life", cases, ("deltalake", "pyarrow"))


if __name__ == "__main__":
    main()
