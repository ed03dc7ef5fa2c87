"""Measures the size and the precision of Sieve indexes in ten layouts, with 64 and with 4,096 row groups.

Every answer is compared with brute force. The program fails if an index loses a row, or misses one of its bounds: it
must store little more than what questions read, keep the optimal units, and need few more bits than a model that is
computed from the rows. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sieve_index import MeasuredIndex, ask
from sieve_truth import Question, Truth

import parsieve as ps

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import layouts
import record

GROUPS_OF_A_FILE = 4
FPP = 0.02
KINDS = ("present", "absent", "narrow", "wide")
SIEVE, BARE, BOTH = "with fingerprints", "without fingerprints", "with Bloom filters"
WAYS: dict[str, dict[str, Any]] = {
    SIEVE: {"kind": "sieve", "fpp": FPP},
    BARE: {"kind": "sieve", "fpp": None},
    BOTH: {"kind": "both", "fpp": None},
}
# How many bytes an index may have beyond a share of its yardstick.
FIXED_BYTES = 16 << 10
MOST_STORED = 1.2
MOST_OF_THE_MODEL = 1.3
# As many questions about missing keys must keep the promised number of units.
MANY_QUESTIONS = 10_000
# Answers are exact; this is for rounding.
MOST_READS = 1.000_001


@dataclass(frozen=True)
class Bound:
    """A value that must not exceed a limit."""

    name: str
    value: float
    limit: float

    @property
    def is_met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.name}: {self.value:,.4g} of at most {self.limit:,.4g}"


def _lineitem(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return order keys as in TPC-H: eight of every 32 keys, with one to seven rows each, in order."""
    lines = random.integers(1, 8, files * rows)
    orders = np.repeat(np.arange(len(lines)), lines)[: files * rows]
    return orders // 8 * 32 + orders % 8 + 1


LAYOUTS = (*layouts.LAYOUTS, layouts.Layout("lineitem", "order keys of lineitem", _lineitem))


def write(folder: Path, files: int, rows: int) -> None:
    """Write the table to files of four row groups."""
    random = np.random.default_rng(7)
    table = pa.table({layout.name: layout.values(random, files, rows) for layout in LAYOUTS})
    folder.mkdir(parents=True)
    for number in range(files):
        part = table.slice(number * rows, rows)
        pq.write_table(part, folder / f"{number:05}.parquet", row_group_size=rows // GROUPS_OF_A_FILE)


def measure_index(
    folder: Path, layout: layouts.Layout, truth: Truth, way: str, count: int
) -> tuple[MeasuredIndex, dict[str, Any]]:
    """Build the index of a column in a separate folder, and ask all questions."""
    place = folder / f"{layout.name}-{way.replace(' ', '-')}"
    table = ps.open_table(folder / "table", index_location=place)
    start = time.perf_counter()
    table.build_index(layout.name, unit="row_group", progress=False, **WAYS[way])
    seconds = time.perf_counter() - start
    index = MeasuredIndex(folder / "table", place, layout.name, GROUPS_OF_A_FILE, bloom=way == BOTH)
    units = {}
    for kind in KINDS:
        answers = ask(index, truth.questions(kind, count if kind in ("present", "absent") else max(1, count // 20)))
        if answers is not None:
            units[kind] = answers
    return index, {
        "seconds": round(seconds, 2),
        "stored_bytes": index.bytes_stored,
        "lookup_bytes": index.bytes_read,
        "part_bytes": index.part_bytes(),
        "units": units,
    }


def check_plans(folder: Path, layout: layouts.Layout, truth: Truth, count: int) -> dict[str, dict[str, float]]:
    """Compare plans with brute force, and return the mean bytes and requests of the first question to an index."""
    place = folder / f"{layout.name}-{SIEVE.replace(' ', '-')}"
    read: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        costs = []
        for question in truth.questions(kind, count):
            # A new table has nothing in memory.
            plan = ps.open_table(folder / "table", index_location=place).plan(
                _condition(layout.name, question), row_groups=False
            )
            kept = {
                int(Path(path).stem) * GROUPS_OF_A_FILE + group
                for path, groups in plan.row_groups.items()
                for group in (range(GROUPS_OF_A_FILE) if groups is None else groups)
            }
            lost = set(question.units.tolist()) - kept
            assert not lost, f"the plan of {question.low} to {question.high} loses units {sorted(lost)}"
            costs.append((plan.bytes_fetched, plan.requests))
        if costs:
            read[kind] = {
                "bytes": round(sum(cost[0] for cost in costs) / len(costs)),
                "requests": round(sum(cost[1] for cost in costs) / len(costs), 1),
            }
    return read


def _condition(column: str, question: Question) -> Any:
    if question.low.equals(question.high):
        return (column, "=", question.low)
    return [(column, ">=", question.low), (column, "<=", question.high)]


def has_fingerprints(case: dict[str, Any]) -> bool:
    """Return whether the index excludes missing keys, by fingerprints or by gaps. The builder decides if they pay."""
    means = [case["ways"][way]["units"].get("absent") for way in (SIEVE, BARE)]
    return all(means) and means[0]["kept"] < means[1]["kept"] / 2


def bounds(case: dict[str, Any]) -> list[Bound]:
    """Return the bounds of the index that a build makes by default, and of the one without fingerprints."""
    result = []
    for way in (SIEVE, BARE):
        measured = case["ways"][way]
        units = measured["units"]
        fingerprints = way == SIEVE and case["fingerprints"]
        model = sum(bits for part, bits in case["model_bits"].items() if part != "fingerprints" or fingerprints)
        stored, lookup = measured["stored_bytes"], measured["lookup_bytes"]
        result.append(Bound(f"{way}: bytes stored", stored, MOST_STORED * lookup + FIXED_BYTES))
        result.append(Bound(f"{way}: bytes read", lookup, MOST_OF_THE_MODEL * model / 8 + FIXED_BYTES))
        result += [
            Bound(f"{way}: units kept / optimum, {kind}", units[kind]["kept"] / units[kind]["optimum"], MOST_READS)
            for kind in ("present", "narrow", "wide")
        ]
        if "absent" in units:
            # The mean of few random questions may exceed the expected value by three standard errors.
            count = units["absent"]["questions"]
            error = 3 * (FPP / count) ** 0.5 if count < MANY_QUESTIONS else 0.0
            limit = FPP + error if fingerprints else units["present"]["kept"]
            result.append(Bound(f"{way}: units kept, absent", units["absent"]["kept"], limit))
    return result


@dataclass(frozen=True)
class Size:
    """The size of the table, and the number of questions of each kind."""

    files: int
    rows_of_a_file: int
    questions: int


def measure(folder: Path, size: Size, names: list[str], jobs: int) -> Iterator[dict[str, Any]]:
    """Yield the sizes and the units kept of each layout. Measures several layouts at once, each in its process."""
    write(folder / "table", size.files, size.rows_of_a_file)
    chosen = [layout.name for layout in LAYOUTS if not names or layout.name in names]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as pool:
        for case in pool.map(measure_layout, repeat(folder), repeat(size), chosen):
            _print(case)
            yield case


def measure_layout(folder: Path, size: Size, name: str) -> dict[str, Any]:
    """Return the sizes and the units kept of a layout."""
    layout = next(layout for layout in LAYOUTS if layout.name == name)
    slices = ps.open_table(folder / "table").opened.lake.snapshot().slices
    bindings = list(zip(slices.group.to_pylist(), slices.token.to_pylist(), strict=True))
    num_units = size.files * GROUPS_OF_A_FILE
    column = pq.read_table(sorted((folder / "table").iterdir()), columns=[name])[name].combine_chunks()
    truth = Truth(column, np.repeat(np.arange(num_units), len(column) // num_units), num_units)
    model = truth.model_bits(FPP, bindings)
    case: dict[str, Any] = {
        "layout": layout.name,
        "about": layout.about,
        "files": size.files,
        "units": num_units,
        "rows": len(column),
        "keys": truth.num_keys,
        "ways": {},
    }
    for way in WAYS:
        # Each question about a key asks all Bloom filters again, so it takes longer.
        questions = max(1, size.questions // 10) if way == BOTH else size.questions
        _, case["ways"][way] = measure_index(folder, layout, truth, way, questions)
    case["fingerprints"] = has_fingerprints(case)
    case["model_bits"] = {part: round(bits) for part, bits in model.items()}
    case["first_question"] = check_plans(folder, layout, truth, min(20, size.questions))
    case["missed"] = [str(bound) for bound in bounds(case) if not bound.is_met]
    return case


def _print(case: dict[str, Any]) -> None:
    scale = 8 / case["rows"]
    model = {part: round(bits / case["rows"], 3) for part, bits in case["model_bits"].items()}
    print(f"  {case['about']}: {case['keys']:,} keys; model in bits per row: {model}")
    for way, measured in case["ways"].items():
        kept = ", ".join(
            f"{kind} {means['kept']:,.4g} of {means['optimum']:,.4g}" for kind, means in measured["units"].items()
        )
        stored, lookup = (measured[name] * scale for name in ("stored_bytes", "lookup_bytes"))
        print(f"    {way}: {stored:.3f} bits per row stored, {lookup:.3f} read; units kept: {kept}")
    print(f"    first question: {case['first_question']}")
    for missed in case["missed"]:
        print(f"    MISSED {missed}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data; sizes have no bounds then")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rows", type=int, default=2_048_000, help="rows of each table (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=20_000, help="questions of each kind (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="layouts to measure at once (default: %(default)s)")
    parser.add_argument("layouts", nargs="*", help="measure only these layouts")
    arguments = parser.parse_args()
    rows, count = (8_192, 200) if arguments.smoke else (arguments.rows, arguments.questions)
    cases: list[dict[str, Any]] = []
    for files in (4, 64) if arguments.smoke else (16, 1_024):
        print(f"{files:,} files of {rows // files:,} rows, {files * GROUPS_OF_A_FILE:,} row groups")
        with tempfile.TemporaryDirectory() as folder:
            size = Size(files, rows // files, count)
            cases += measure(Path(folder), size, arguments.layouts, arguments.jobs)
    if arguments.save:
        record.save("sieve-size", cases, ("pyarrow", "numpy"))
    missed = [f"{case['units']:,} units, {case['about']}: {text}" for case in cases for text in case["missed"]]
    if missed:
        print(f"\n{len(missed)} bounds are missed:", *missed, sep="\n  ")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
