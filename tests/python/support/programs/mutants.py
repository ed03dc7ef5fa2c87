"""Make random changes to a folder of the package, and list the changes that the tests miss.

    PYTHONPATH=tests/python python tests/python/support/programs/mutants.py predicate --count 300 --seed 1

First, all Python tests run once without a change, to find the tests that run each line. Then each change is made in a
copy of the package. The tests of the changed lines run against the copy until one fails. They stop after
`--seconds`, so other tests may notice more changes. `--records FOLDER` keeps the lines of all tests for other runs, a
file for each folder of tests. Delete a file to record its tests again. With `--save`, the result is appended to the
ledger of long runs, also if the program is stopped before its end.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import itertools
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.programs import long_runs

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = ROOT / "python" / "parsieve"
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
TESTS = ROOT / "tests" / "python"
# The tests of Spark and of the recipes have separate environments.
OTHER_ENVIRONMENTS = ("spark", "recipes")
# A mutant counts as noticed if its tests take five minutes more than this many times their usual time.
PATIENCE = 5


@dataclass(frozen=True)
class Mutant:
    """One change of a file: the bytes from `start` to `end` become `after`. `lines` is the statement."""

    path: Path
    line: int
    start: int
    end: int
    after: str
    lines: range

    def apply(self, source: bytes) -> bytes:
        """Return the source with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def describe(self, source: bytes) -> str:
        """Return the place of the change, and the code before and after it."""
        before = " ".join(source[self.start : self.end].decode().split())
        return f"{self.path.relative_to(ROOT)}:{self.line}: {before}  ->  {self.after}"


def mutants_of(path: Path) -> list[Mutant]:
    """Return all changes of a file."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, statement in _nodes(ast.parse(source), None):
        for changed in _changes(node):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(changed)
            after = f"({text})" if isinstance(node, ast.expr) else text
            lines = range(statement.lineno, node.end_lineno + 1)
            found.append(Mutant(path, node.lineno, begin, end, after, lines))
    return found


def _nodes(tree: ast.AST, statement: ast.stmt | None) -> Iterator[tuple[ast.expr | ast.stmt, ast.stmt]]:
    """Yield the nodes to change, each with its statement.

    Skip types, decorators, imports for types only, assertions, raises, f-strings, and `strict=` of `zip`.
    """
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            child_statement = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, ast.expr | ast.stmt):
                assert child_statement is not None
                yield child, child_statement
            yield from _nodes(child, child_statement)


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and len(changed.ops) == 1:
        changed.ops = [COMPARISONS[type(changed.ops[0])]()]
        yield changed
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield changed
    elif isinstance(changed, ast.BinOp) and type(changed.op) in OPERATORS:
        changed.op = OPERATORS[type(changed.op)]()
        yield changed
    elif isinstance(changed, ast.UnaryOp) and isinstance(changed.op, ast.Not):
        yield changed.operand
    elif isinstance(changed, ast.Constant) and isinstance(changed.value, bool):
        yield ast.Constant(not changed.value)
    elif isinstance(changed, ast.Constant) and type(changed.value) is int:
        yield ast.Constant(changed.value + 1)
    elif isinstance(changed, ast.IfExp):
        changed.body, changed.orelse = changed.orelse, changed.body
        yield changed
    elif isinstance(changed, ast.Return) and changed.value is not None and not _is_none(changed.value):
        yield ast.Return(ast.Constant(None))
    elif isinstance(changed, ast.Expr) and isinstance(changed.value, ast.Call | ast.YieldFrom):
        yield ast.Pass()
    elif isinstance(changed, ast.Continue):
        yield ast.Break()
    elif isinstance(changed, ast.Break):
        yield ast.Continue()


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


class CoveringTests:
    """Knows which tests run each line of the package, and how long each test takes."""

    def __init__(self, records: list[dict[str, Any]]) -> None:
        self._records = records
        self._seconds: dict[str, float] = {}
        for record in records:
            self._seconds.update(record["seconds"])
        # 0 is the quickest of all parameters of a test function.
        self._ranks: dict[str, int] = {}
        counts: Counter[str] = Counter()
        for test in sorted(self._seconds, key=self._seconds.__getitem__):
            function = test.partition("[")[0]
            self._ranks[test] = counts[function]
            counts[function] += 1

    def tests_of(self, mutant: Mutant, seconds: float) -> list[str]:
        """Return tests that run a line of the change, up to a total time.

        The tests of the same folder come first, each with its quickest parameters, then with the next ones. If no test
        is known to run the line, take the tests that run another line of the file, or else all tests: the line can run
        in another process, or during an import.
        """
        path = mutant.path.relative_to(PACKAGE)
        contexts = self._contexts(str(path), mutant.lines) or self._contexts(str(path), None)
        candidates = [test for test in self._seconds if not contexts or not contexts.isdisjoint(_contexts_of(test))]
        own_folder = f"tests/python/{path.parts[0]}/"
        candidates.sort(key=lambda test: (not test.startswith(own_folder), self._ranks[test], self._seconds[test]))
        totals = itertools.accumulate(self._seconds[test] for test in candidates)
        return [test for test, total in zip(candidates, totals, strict=True) if total <= seconds] or candidates[:1]

    def _contexts(self, path: str, lines: range | None) -> set[str]:
        """Return the tests, files and folders that run some lines of a file, or any of its lines."""
        contexts: set[str] = set()
        for record in self._records:
            recorded: dict[str, list[int]] = record["lines"].get(path, {})
            for line in recorded if lines is None else map(str, lines):
                contexts.update(record["contexts"][number] for number in recorded.get(line, []))
        return contexts - {""}

    def tests(self) -> set[str]:
        """Return all recorded tests."""
        return set(self._seconds)

    def seconds(self, tests: list[str]) -> float:
        """Return how long tests take without a change."""
        return sum(self._seconds[test] for test in tests)


def _contexts_of(test: str) -> Iterator[str]:
    """Yield a test, its class or file, and its folders. A fixture can be shared by all tests of these."""
    yield test
    while "::" in test:
        test = test.rpartition("::")[0]
        yield test
    yield from map(str, Path(test).parents)


class MutantRunner:
    """Runs the tests on mutants, with several workers. Each worker has its own copy of the package."""

    def __init__(self, folder: Path, records: Path, workers: int, seconds: float) -> None:
        self._seconds = seconds
        self._copies: queue.Queue[Path] = queue.Queue()
        for number in range(workers):
            shutil.copytree(PACKAGE, folder / str(number) / "parsieve", ignore=shutil.ignore_patterns("__pycache__"))
            self._copies.put(folder / str(number))
        with ThreadPoolExecutor(workers) as pool:
            paths = list(pool.map(self._record_lines, *zip(*_groups_of_tests(records), strict=True)))
        self._selection = CoveringTests([json.loads(path.read_text()) for path in paths])
        outdated = self._selection.tests() - _collect_tests()
        if outdated:
            raise SystemExit(f"{len(outdated)} recorded tests no longer exist: {sorted(outdated)[0]}, ...")

    def _record_lines(self, record: Path, tests: list[str]) -> Path:
        """Run tests once, unless they have a record, and record which lines each of them runs."""
        if not record.exists():
            package_copy = self._copies.get()
            variables = {"LINE_TESTS_SOURCE": str(package_copy / "parsieve"), "LINE_TESTS_OUTPUT": str(record)}
            if _pytest(package_copy, ["-p", "support.programs.line_tests", *tests], variables):
                record.unlink(missing_ok=True)
                raise SystemExit(f"the tests of {record.stem} fail without a change")
            self._copies.put(package_copy)
        return record

    def is_noticed(self, mutant: Mutant) -> bool:
        """Return whether a test fails, or takes too long, with a change."""
        package_copy = self._copies.get()
        target = package_copy / "parsieve" / mutant.path.relative_to(PACKAGE)
        source = mutant.path.read_bytes()
        tests = self._selection.tests_of(mutant, self._seconds)
        # A command line would be too short for the names of all tests.
        names = package_copy / "tests"
        names.write_text("\n".join(tests))
        try:
            target.write_bytes(mutant.apply(source))
            return bool(_pytest(package_copy, [f"@{names}"], {}, PATIENCE * self._selection.seconds(tests) + 300))
        except subprocess.TimeoutExpired:
            return True
        finally:
            target.write_bytes(source)
            self._copies.put(package_copy)


def _groups_of_tests(records: Path) -> list[tuple[Path, list[str]]]:
    """Return the record of each folder of tests, and its tests. The last group has the files outside of the folders."""
    folders = [folder for folder in sorted(TESTS.iterdir()) if any(folder.rglob("test_*.py"))]
    groups = [(records / f"{folder.name}.json", [str(folder)]) for folder in folders]
    files = sorted(map(str, TESTS.glob("test_*.py")))
    return [group for group in groups if group[0].stem not in OTHER_ENVIRONMENTS] + [(records / "files.json", files)]


def _collect_tests() -> set[str]:
    """Return the names of all tests that run by default."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    variables = {**os.environ, "PYTHONPATH": str(TESTS)}
    output = subprocess.run(
        [*command, *(f"--ignore={TESTS / name}" for name in OTHER_ENVIRONMENTS), str(TESTS)],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in output.stdout.splitlines() if "::" in line}


def _pytest(package_copy: Path, arguments: list[str], variables: dict[str, str], limit: float | None = None) -> int:
    paths = os.pathsep.join([str(package_copy), str(TESTS)])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=limit,
        check=False,
    ).returncode


def main() -> None:
    """Try a sample of the mutants of a folder, and print the ones that its tests miss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a folder or a file of the package, for example plan/evidence")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=200, help="the longest time of the tests for one change")
    parser.add_argument("--records", type=Path, help="a folder that keeps the lines that each test runs")
    parser.add_argument("--save", action="store_true", help="append the result to the ledger of long runs")
    options = parser.parse_args()
    begun = time.monotonic()
    path = PACKAGE / options.folder
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    all_mutants = [mutant for file in files for mutant in mutants_of(file)]
    sample = random.Random(options.seed).sample(all_mutants, min(options.count, len(all_mutants)))
    tried, unnoticed = 0, []
    # A stopped run ends with the changes that it has tried.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            ThreadPoolExecutor(options.workers) as pool,
            contextlib.ExitStack() as pool_exit,
        ):
            records = options.records or Path(folder) / "records"
            records.mkdir(exist_ok=True)
            runner = MutantRunner(Path(folder), records, options.workers, options.seconds)
            pool_exit.callback(pool.shutdown, cancel_futures=True)
            for mutant, is_noticed in zip(sample, pool.map(runner.is_noticed, sample), strict=True):
                tried += 1
                if not is_noticed:
                    unnoticed.append(mutant.describe(mutant.path.read_bytes()))
                    print(f"{tried}: {unnoticed[-1]}", flush=True)
    finally:
        print(f"{tried - len(unnoticed)} of {tried} mutants noticed ({len(all_mutants):,} in {options.folder})")
        if options.save and tried:
            seconds = time.monotonic() - begun
            long_runs.record_mutants(options.folder, options.seed, seconds, tried, unnoticed)


if __name__ == "__main__":
    main()
