"""The Python benches, beside their peers. `benches/README.md` says how to run and how to read them."""

from __future__ import annotations

import argparse
import datetime
import io
import json
import os
import platform
import statistics
import subprocess
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

import parsieve as ps
from parsieve._core import instruction_sets

ROOT = Path(__file__).resolve().parents[2]
# Rounds of a case: at least and at most so many, and no further one begun after so many seconds.
LEAST_ROUNDS, MOST_ROUNDS, LONG_ENOUGH = 4, 9, 20.0
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
    # Nanoseconds per value of each round.
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def race(self, plan: Plan, contenders: dict[str, Callable[[], object]]) -> None:
        """Time the contenders in turn (A B C A B C ...): what disturbs the machine disturbs all of them."""
        begun = time.perf_counter()
        for turn in range(1 if plan.smoke else MOST_ROUNDS):
            if turn >= LEAST_ROUNDS and time.perf_counter() - begun > LONG_ENOUGH:
                break
            for name, run in contenders.items():
                # Time that this process has worked; but threads are there to save time that passes.
                clock = time.perf_counter_ns if name.endswith("threads") else time.process_time_ns
                start = clock()
                result = run()
                self.rounds.setdefault(name, []).append((clock() - start) / self.num_values)
                del result

    def combine(self, name: str, first: str, sign: int, second: str) -> None:
        """Add a time made of two others of the same round."""
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
    """A random-looking word for each number, and never the same for two (the finaliser of SplitMix64)."""
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
    """The Python Bloom filters, each of about the bytes of ours."""

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
    """One row group, plainly written: as little as possible beside the filter."""
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
    assert sink.getvalue().to_pybytes().find(bitset) > 0, "pyarrow wrote another bitset"


def list_and(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, f"{name}, with the list") for name in names)


def insert(plan: Plan, values: str, array: pa.Array) -> Case:
    table = pa.table({"v": array})
    filters = {isa: ps.BloomFilter(num_bytes=plan.num_bytes) for isa in plan.isas}
    for isa, bloom in filters.items():
        bloom.insert(array, instruction_set=isa)
        assert bloom == filters[plan.isas[0]], f"other bits on {isa}"
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
    for name, total in list_and(peers.inserts()):
        case.combine(total, "to_pylist", 1, name)
    case.combine("writer's cost of a filter", "writer with a filter", -1, "writer without a filter")
    case.print(f"parsieve {best}")
    return case


def check(plan: Plan, values: str, array: pa.Array, probes: pa.Array, present: np.ndarray) -> Case:
    bloom = ps.BloomFilter(num_bytes=plan.num_bytes)
    bloom.insert(array)
    answers = bloom.check(probes, instruction_set=plan.isas[0])
    as_list, as_mask = probes.to_pylist(), present.tolist()
    got = answers.to_numpy(zero_copy_only=False)
    assert got[present].all(), "a false negative"
    assert got[~present].mean() < 2 * FPP, "too many false positives"
    for isa in plan.isas:
        assert bloom.check(probes, instruction_set=isa).equals(answers), f"other answers on {isa}"
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
    for name, total in list_and(peers.checks()):
        case.combine(total, "to_pylist", 1, name)
    case.print(f"parsieve {best}")
    return case


def judge(plan: Plan, case: Case) -> list[dict[str, Any]]:
    """The targets of the int64 column, on each instruction set: minima, but medians where a difference is measured."""
    targets = []
    for isa in plan.isas:
        ours = f"parsieve {isa}"
        abloom_ratio = case.min("abloom, with the list") / case.min(ours)
        writer_ratio = case.median("writer's cost of a filter") / case.median(ours)
        for what, measured, limit, met in [
            ("insert int64, ns per value", case.min(ours), 2.5, case.min(ours) <= 2.5),
            ("times abloom with its list", abloom_ratio, 30.0, abloom_ratio >= 30.0),
            ("times the writer's cost of a filter", writer_ratio, 12.0, writer_ratio >= 12.0),
        ]:
            targets.append(
                {"what": what, "instruction_set": isa, "target": limit, "measured": round(measured, 3), "met": met}
            )
    print("\nTargets")
    for target in targets:
        verdict = "met" if target["met"] else "MISSED"
        what = f"{target['what']:<38} {target['instruction_set']:<9}"
        print(f"  {what} {target['measured']:>8.2f} of {target['target']:>5.1f}  {verdict}")
    return targets


def output(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return output("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def save(arguments: list[str], cases: list[Case], targets: list[dict[str, Any]]) -> None:
    # `+`: files differ from the commit.
    changed = output("git", "status", "--porcelain", "--", ":!benches/results")
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    packages = ["parsieve", "pyarrow", "abloom", "rbloom", "fastbloom_rs", "numpy"]
    record = {
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
    part = "".join(f"-{word}" for word in arguments if not word.startswith("--"))
    folder = ROOT / "benches" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"bloom-python-{date}{part}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"\nbenches/results/{path.name}")


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Each case as it ends, into a pipe too.
        sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", action="append", choices=instruction_sets(), help="only on this instruction set")
    parser.add_argument("--smoke", action="store_true", help="each case once and small: does it run, and do all agree")
    parser.add_argument("--save", action=argparse.BooleanOptionalAction, help="write benches/results; a full run does")
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
