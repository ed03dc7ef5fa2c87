"""Run the random programs of this folder with new seeds, and append a line for each run to the ledger of long runs.

    make soak HOURS=8
    make soak-spark HOURS=2

The programs take turns. Each finding is printed with the command that repeats it. `make fuzz`, `make mutants` and `make
test-under-load` append their runs too. The last one is this program:

    python tests/python/support/programs/long_runs.py tests --runs 5 --busy-loops 3

With `--also CHECKOUT`, another checkout of the same commit runs its tests at the same time. Both runs are recorded. To
run and record another test command, for example `make miri`, pass it to `record`:

    python tests/python/support/programs/long_runs.py record make miri
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import itertools
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parents[2]
ROOT = TESTS.parents[1]
LEDGER = ROOT / "benches" / "results" / "long-runs.jsonl"
# A turn of each program takes a few minutes.
PROGRAMS = {
    "row_differences.py": "--cases 3000 --jobs 2",
    "engine_differences.py": "--queries 500",
    "list_differences.py": "--conditions 3000",
    "text_differences.py": "--conditions 1000",
    "expression_differences.py": "--conditions 1000",
    "key_differences.py": "--conditions 3000",
    "type_differences.py": "--conditions 3000",
    "order_differences.py": "--conditions 1000",
    "iceberg_differences.py": "--conditions 5000",
    "delta_differences.py": "--conditions 5000",
    "encrypted_differences.py": "--conditions 5000",
    "served_differences.py": "--queries 500",
    "replacing.py": "--reads 5000",
}
# Programs that need PySpark.
SPARK_PROGRAMS = {"spark_differences.py": "--conditions 400"}


@dataclass
class Turns:
    """The runs of one program: their processor time, their seeds, and the commands that found something."""

    seconds: float = 0
    seeds: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


def soak(programs: Mapping[str, str], hours: float) -> bool:
    """Alternate between the programs for some hours of processor time. Return whether they found something."""
    turns = {program: Turns() for program in programs}
    try:
        for program in itertools.cycle(programs):
            if sum(done.seconds for done in turns.values()) > hours * 3600:
                break
            _take_turn(program, programs[program], turns[program])
    finally:
        for program, done in turns.items():
            if done.seeds:
                append(
                    command=f"{program} {programs[program]}",
                    hours=round(done.seconds / 3600, 3),
                    seeds=done.seeds,
                    findings=done.findings,
                )
    return any(done.findings for done in turns.values())


def _take_turn(program: str, arguments: str, turns: Turns) -> None:
    seed = secrets.randbelow(2**31)
    path = (Path(__file__).parent / program).relative_to(ROOT)
    command = f"PYTHONPATH=tests/python {sys.executable} {path} {arguments} --seed {seed}"
    print(command, flush=True)
    begun = _processor_seconds()
    search_path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(path), *shlex.split(arguments), "--seed", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": search_path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    turns.seconds += _processor_seconds() - begun
    turns.seeds.append(seed)
    if done.returncode:
        turns.findings.append(f"{program} {arguments} --seed {seed}")
        print(f"{done.stdout}\nFINDING: repeat it with\n    {command}", flush=True)


def _processor_seconds() -> float:
    """Return the processor time of all processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system


def record_mutants(folder: str, seed: int, seconds: float, count: int, unnoticed: list[str]) -> None:
    """Append how many changes of a folder the tests noticed. `unnoticed` describes the others."""
    append(
        command=f"mutants {folder}", hours=round(seconds / 3600, 3), seeds=[seed], mutants=count, unnoticed=unnoticed
    )


def run_tests(runs: int, busy_loops: int, others: list[Path]) -> bool:
    """Run `make test` several times under the load of busy loops. Return whether a run failed.

    The checkouts in `others` run their tests at the same time.
    """
    command = f"make -j2 test, beside {busy_loops} busy loops"
    if others:
        command += f" and {len(others)} more of these"
    failed = False
    for _ in range(runs):
        with contextlib.ExitStack() as loops, ThreadPoolExecutor() as pool:
            for _ in range(busy_loops):
                loop = loops.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
                loops.callback(loop.kill)
            results = list(pool.map(_make_test, [ROOT, *others]))
        for done, seconds in results:
            failed |= bool(done.returncode)
            _append_tests(command, done, seconds)
    return failed


def run_and_record(command: list[str]) -> bool:
    """Run a test command, and append its results. Return whether it failed."""
    done, seconds = _run(command, ROOT)
    _append_tests(shlex.join(command), done, seconds)
    return bool(done.returncode)


def _append_tests(command: str, done: subprocess.CompletedProcess[str], seconds: float) -> None:
    findings = _failed_tests(done.stdout) if done.returncode else []
    append(
        command=command,
        hours=round(seconds / 3600, 3),
        summaries=re.findall(r"\d+ passed[^=\n]*|test result: .*", done.stdout),
        findings=findings,
    )
    if findings:
        print(done.stdout, flush=True)


def _make_test(checkout: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    return _run(["make", "-j2", "test"], checkout)


def _run(command: list[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], float]:
    begun = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done, time.monotonic() - begun


def _failed_tests(output: str) -> list[str]:
    """Return the names of the tests that pytest and cargo report as failed."""
    names = re.findall(r"^(?:FAILED|ERROR) \S+|^test \S+ \.\.\. FAILED", output, re.MULTILINE)
    return names or ["the command failed"]


def append(**run: object) -> None:
    """Append a run to the ledger of long runs."""
    # The files that this function changes do not count.
    own = [":!benches/results", ":!docs/testing.md"]
    commit, changes = (
        subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", ".", *own])
    )
    commit += "-dirty" if changes else ""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        print(json.dumps({"date": dt.date.today().isoformat(), "commit": commit, **run}), file=ledger)
    # A test compares docs/testing.md with the ledger.
    subprocess.run([sys.executable, str(ROOT / "docs/scripts/measured.py")], check=True)


def main() -> int:
    """Run a command. Return 1 if a program found something, or if the tests failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    random_programs = commands.add_parser("soak")
    random_programs.add_argument("--hours", type=float, default=1)
    random_programs.add_argument("--spark", action="store_true", help="run the programs that need PySpark")
    tests = commands.add_parser("tests")
    tests.add_argument("--runs", type=int, default=5)
    tests.add_argument("--busy-loops", type=int, default=3)
    tests.add_argument("--also", type=Path, action="append", default=[], metavar="CHECKOUT")
    commands.add_parser("record").add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    # A stopped run still appends its line to the ledger.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.command == "record":
        return int(run_and_record(options.arguments))
    if options.command == "tests":
        return int(run_tests(options.runs, options.busy_loops, options.also))
    return int(soak(SPARK_PROGRAMS if options.spark else PROGRAMS, options.hours))


if __name__ == "__main__":
    sys.exit(main())
