"""Benchmarks of filters in memory, compared with other Python libraries. See `benches/README.md`."""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import compress
from pathlib import Path
from typing import Any

import abloom
import fastbloom_rs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rbloom
from record import cpu, output

import parsieve as ps
from parsieve._core import instruction_sets

ROOT = Path(__file__).resolve().parents[2]
# The minimum and maximum number of rounds of a case, and the seconds after which no further round starts.
MIN_ROUNDS, MAX_ROUNDS, MAX_SECONDS = 4, 9, 20.0
FPP = 0.01


@dataclass(frozen=True)
class Plan:
    smoke: bool
    isas: list[str]

    @property
    def num_values(self) -> int:
        return 150_000 if self.smoke else 10_000_000

    @property
    def num_bytes(self) -> int:
        return (256 << 10) if self.smoke else (16 << 20)


@dataclass
class Case:
    operation: str
    values: str
    num_values: int
    num_bytes: int
    # Nanoseconds per value, for each round.
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def race(self, plan: Plan, contenders: dict[str, Callable[[], object]]) -> None:
        """Time the contenders alternately (A B C A B C ...), so that other load on the machine affects all of them."""
        began = time.perf_counter()
        for number in range(1 if plan.smoke else MAX_ROUNDS):
            if number >= MIN_ROUNDS and time.perf_counter() - began > MAX_SECONDS:
                break
            for name, run in contenders.items():
                # CPU time of this process; with several threads, wall time.
                clock = time.perf_counter_ns if name.endswith("threads") else time.process_time_ns
                start = clock()
                result = run()
                self.rounds.setdefault(name, []).append((clock() - start) / self.num_values)
                del result

    def combine(self, name: str, first: str, sign: int, second: str) -> None:
        """Add the sum or difference of two times of the same round."""
        pairs = zip(self.rounds[first], self.rounds[second], strict=True)
        self.rounds[name] = [a + sign * b for a, b in pairs]

    def min(self, name: str) -> float:
        return min(self.rounds[name])

    def median(self, name: str) -> float:
        return statistics.median(self.rounds[name])

    def print(self, ours: str) -> None:
        print(f"\n{self.operation} {self.values}, {self.num_bytes >> 10} KiB ({self.num_values:,} values)")
        print(f"  {'ns per value':<40} {'min':>9} {'median':>9}  {'/ ' + ours:>18}")
        for name in self.rounds:
            ratio = self.median(name) / self.median(ours)
            print(f"  {name:<40} {self.min(name):>9.2f} {self.median(name):>9.2f}  {ratio:>17.1f}x")

    def record(self) -> dict[str, Any]:
        timings = [
            {"name": name, "min": round(self.min(name), 4), "median": round(self.median(name), 4)}
            for name in self.rounds
        ]
        return {
            "operation": self.operation,
            "values": self.values,
            "num_bytes": self.num_bytes,
            "num_values": self.num_values,
            "timings": timings,
        }


def scramble(numbers: Iterable[int] | np.ndarray) -> np.ndarray:
    """Return a distinct, random-looking word for each number (the finalizer of SplitMix64)."""
    words = np.asarray(numbers, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def int64(words: np.ndarray) -> pa.Array:
    return pa.array(words.view(np.int64))


def text16(words: np.ndarray) -> pa.Array:
    offsets = np.arange(len(words) + 1, dtype=np.int32) * 16
    return pa.StringArray.from_buffers(
        len(words), pa.py_buffer(offsets), pa.py_buffer(words.tobytes().hex().encode("ascii"))
    )


@dataclass
class Peers:
    """Bloom filters of other Python libraries, each about as large as ours."""

    abloom: Any
    rbloom: Any
    fastbloom_rs: Any
    is_text: bool

    @classmethod
    def of_size(cls, num_bytes: int, is_text: bool) -> Peers:
        trial = 1_000_000
        split = trial * num_bytes // abloom.BloomFilter(trial, FPP).byte_count
        classic = trial * num_bytes * 8 // rbloom.Bloom(trial, FPP).size_in_bits
        fast = fastbloom_rs.FilterBuilder(classic, FPP).build_bloom_filter()
        return cls(abloom.BloomFilter(split, FPP), rbloom.Bloom(classic, FPP), fast, is_text)

    def inserts(self) -> dict[str, Callable[[list[Any]], object]]:
        fast = self.fastbloom_rs.add_str_batch if self.is_text else self.fastbloom_rs.add_int_batch
        return {"abloom": self.abloom.update, "rbloom": self.rbloom.update, "fastbloom_rs": fast}

    def checks(self) -> dict[str, Callable[[list[Any]], list[bool]]]:
        fast = self.fastbloom_rs.contains_str_batch if self.is_text else self.fastbloom_rs.contains_int_batch
        return {
            "abloom": lambda values: list(map(self.abloom.__contains__, values)),
            "rbloom": lambda values: list(map(self.rbloom.__contains__, values)),
            "fastbloom_rs": fast,
        }


def write(table: pa.Table, sink: Any, plan: Plan, *, bloom: bool) -> None:
    """Write one row group with as little work as possible besides the filter."""
    pq.write_table(
        table,
        sink,
        row_group_size=len(table),
        use_dictionary=False,
        compression="none",
        write_statistics=False,
        bloom_filter_options={"v": {"ndv": plan.num_values, "fpp": FPP}} if bloom else None,
    )


def assert_same_bitset(table: pa.Table, bitset: bytes, plan: Plan) -> None:
    sink = pa.BufferOutputStream()
    write(table, sink, plan, bloom=True)
    assert sink.getvalue().to_pybytes().find(bitset) > 0, "pyarrow wrote a different bitset"


def names_with_list(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, f"{name}, with the list") for name in names)


def insert(plan: Plan, values: str, array: pa.Array) -> Case:
    table = pa.table({"v": array})
    filters = {isa: ps.BloomFilter(num_bytes=plan.num_bytes) for isa in plan.isas}
    for isa, bloom in filters.items():
        bloom.insert(array, instruction_set=isa)
        assert bloom == filters[plan.isas[0]], f"different bits with {isa}"
    assert_same_bitset(table, bytes(memoryview(filters[plan.isas[0]])), plan)
    peers = Peers.of_size(plan.num_bytes, pa.types.is_string(array.type))
    as_list = array.to_pylist()
    for name, add in peers.inserts().items():
        add(as_list)
        assert all(peers.checks()[name](as_list[:10_000])), f"a false negative of {name}"

    def our_insert(isa: str, threads: int = 1) -> Callable[[], object]:
        bloom = filters[isa]
        return lambda: bloom.insert(array, instruction_set=isa, threads=threads)

    best = plan.isas[-1]
    contenders: dict[str, Callable[[], object]] = {f"parsieve {isa}": our_insert(isa) for isa in plan.isas}
    contenders[f"parsieve {best}, 2 threads"] = our_insert(best, threads=2)
    contenders["to_pylist"] = array.to_pylist
    for name, add in peers.inserts().items():
        contenders[name] = lambda add=add: add(as_list)  # type: ignore[misc]
    contenders["writer without a filter"] = lambda: write(table, pa.MockOutputStream(), plan, bloom=False)
    contenders["writer with a filter"] = lambda: write(table, pa.MockOutputStream(), plan, bloom=True)
    case = Case("insert", values, plan.num_values, plan.num_bytes)
    case.race(plan, contenders)
    for name, total in names_with_list(peers.inserts()):
        case.combine(total, "to_pylist", 1, name)
    case.combine("writer's cost of a filter", "writer with a filter", -1, "writer without a filter")
    case.print(f"parsieve {best}")
    return case


def check(plan: Plan, values: str, array: pa.Array, probes: pa.Array, present: np.ndarray) -> Case:
    bloom = ps.BloomFilter(num_bytes=plan.num_bytes)
    bloom.insert(array)
    answers = bloom.check(probes, instruction_set=plan.isas[0])
    as_list, as_mask = probes.to_pylist(), present.tolist()
    maybe = answers.to_numpy(zero_copy_only=False)
    assert maybe[present].all(), "a false negative"
    assert maybe[~present].mean() < 2 * FPP, "too many false positives"
    for isa in plan.isas:
        assert bloom.check(probes, instruction_set=isa).equals(answers), f"different answers with {isa}"
    peers = Peers.of_size(plan.num_bytes, pa.types.is_string(array.type))
    inserted = array.to_pylist()
    for name, add in peers.inserts().items():
        add(inserted)
        assert all(compress(peers.checks()[name](as_list), as_mask)), f"a false negative of {name}"
    del inserted

    best = plan.isas[-1]
    contenders: dict[str, Callable[[], object]] = {
        f"parsieve {isa}": lambda isa=isa: bloom.check(probes, instruction_set=isa)  # type: ignore[misc]
        for isa in plan.isas
    }
    contenders[f"parsieve {best}, 2 threads"] = lambda: bloom.check(probes, instruction_set=best, threads=2)
    contenders["to_pylist"] = probes.to_pylist
    for name, contains in peers.checks().items():
        contenders[name] = lambda contains=contains: contains(as_list)  # type: ignore[misc]
    case = Case("check", values, plan.num_values, plan.num_bytes)
    case.race(plan, contenders)
    for name, total in names_with_list(peers.checks()):
        case.combine(total, "to_pylist", 1, name)
    case.print(f"parsieve {best}")
    return case


def judge(plan: Plan, case: Case) -> list[dict[str, Any]]:
    """Compare the int64 column with its targets: by minimum times, and by medians if a difference is measured."""
    targets = []
    for isa in plan.isas:
        ours = f"parsieve {isa}"
        abloom_ratio = case.min("abloom, with the list") / case.min(ours)
        writer_ratio = case.median("writer's cost of a filter") / case.median(ours)
        for label, measured, limit, met in [
            ("insert int64, ns per value", case.min(ours), 2.5, case.min(ours) <= 2.5),
            ("times abloom with its list", abloom_ratio, 30.0, abloom_ratio >= 30.0),
            ("times the writer's cost of a filter", writer_ratio, 12.0, writer_ratio >= 12.0),
        ]:
            targets.append(
                {"what": label, "instruction_set": isa, "target": limit, "measured": round(measured, 3), "met": met}
            )
    print("\nTargets")
    for target in targets:
        verdict = "met" if target["met"] else "MISSED"
        label = f"{target['what']:<38} {target['instruction_set']:<9}"
        print(f"  {label} {target['measured']:>8.2f} of {target['target']:>5.1f}  {verdict}")
    return targets


def save(arguments: list[str], cases: list[Case], targets: list[dict[str, Any]]) -> None:
    # A "+" after the commit means that files were changed.
    changed = output("git", "status", "--porcelain", "--", ":!benches/results")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    packages = ["parsieve", "pyarrow", "abloom", "rbloom", "fastbloom_rs", "numpy"]
    content = {
        "date": date,
        "commit": output("git", "rev-parse", "HEAD") + ("+" if changed else ""),
        "how": " ".join(["make develop .venv/stamp-bench && .venv/bin/python benches/python/main.py", *arguments]),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "unit": "nanoseconds per value",
        "machine": {
            "cpu": cpu(),
            "cores": os.cpu_count(),
            "instruction_sets": instruction_sets(),
            "os": platform.system().lower(),
            "kernel": platform.release(),
            "load_at_end": os.getloadavg() if hasattr(os, "getloadavg") else None,
        },
        "cases": [case.record() for case in cases],
        "targets": targets,
    }
    suffix = "".join(f"-{word}" for word in arguments if not word.startswith("--"))
    folder = ROOT / "benches" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bloom-python-{date}{suffix}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"\nbenches/results/{path.name}")


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Print each case when it ends, even into a pipe.
        sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", action="append", choices=instruction_sets(), help="use only this instruction set")
    parser.add_argument(
        "--smoke", action="store_true", help="run each case once with little data, to check that all results agree"
    )
    parser.add_argument(
        "--save",
        action=argparse.BooleanOptionalAction,
        help="write a record to benches/results (default for a full run)",
    )
    arguments = parser.parse_args()
    plan = Plan(arguments.smoke, arguments.isa or instruction_sets())

    numbers = np.arange(plan.num_values, dtype=np.uint64)
    inserted = scramble(numbers)
    present = (inserted & np.uint64(1)) == 0
    probed = np.where(present, inserted, scramble(numbers + np.uint64(1 << 40)))
    cases = []
    for values, make in [("int64", int64), ("16-byte strings", text16)]:
        array = make(inserted)
        cases.append(insert(plan, values, array))
        cases.append(check(plan, values, array, make(probed), present))
    targets = [] if plan.smoke else judge(plan, cases[0])
    if arguments.save or (arguments.save is None and not plan.smoke and arguments.isa is None):
        save([word for word in sys.argv[1:] if word != "--save"], cases, targets)


if __name__ == "__main__":
    main()
