"""Compare the rows of random plans with pyarrow's rows, and print a summary by writer, type and operator.

`python tests/python/support/programs/row_differences.py --cases 20000 --seed 1 --jobs 2` prints each mismatch with the
command that repeats it. Each folder of files has the number from which it follows, together with the seed.

`--files FOLDER` reads the files of a folder instead, such as those that `spark_files.py` writes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.rows import cases

# Folders of one process. A process that crashes loses only the folder that it was reading.
AT_ONCE = 100


def run(seed: int, numbers: list[int], writer: str | None, per_folder: int, log: str) -> None:
    """Check some folders, and write a line for each folder and each outcome to a file."""
    write_outcomes(log, numbers, lambda number: check(seed, number, writer, per_folder))


def run_files(seed: int, numbers: list[int], folder: Path, per_file: int, log: str) -> None:
    """Check some of the files of a folder in the same way."""
    files = readable_files(folder)
    write_outcomes(log, numbers, lambda number: check_file(seed, number, files, per_file))


def write_outcomes(log: str, numbers: list[int], check_number: Callable[[int], list[cases.Outcome]]) -> None:
    """Write a line for each number and each of its outcomes to a file."""
    os.environ["RUST_BACKTRACE"] = "0"
    # Panics of writers that cannot store a type fill the terminal.
    with Path(log).open("a", encoding="utf-8") as out, Path(f"{log}.stderr").open("a") as errors:
        os.dup2(errors.fileno(), 2)
        for number in numbers:
            print(json.dumps(number), file=out, flush=True)
            for outcome in check_number(number):
                print(json.dumps(asdict(outcome)), file=out, flush=True)


def readable_files(folder: Path) -> list[Path]:
    """Return the files below a folder that pyarrow can read."""
    return [path for path in sorted(folder.rglob("*.parquet")) if cases.is_readable(path)]


def check(seed: int, number: int, writer: str | None, per_folder: int) -> list[cases.Outcome]:
    """Check the plans of one folder."""
    return check_in(lambda place: cases.run_folder(f"{seed}/{number}", place, per_folder, writer), writer or "?")


def check_file(seed: int, number: int, files: Sequence[Path], per_file: int) -> list[cases.Outcome]:
    """Check plans of one of the files. Its indexes are in a temporary folder."""
    path = files[number % len(files)]
    return check_in(lambda place: cases.run_file(path, f"{seed}/{number}", place, per_file), path.name)


def check_in(run_in: Callable[[Path], list[cases.Outcome]], writer: str) -> list[cases.Outcome]:
    """Return the outcomes of a function that gets a temporary folder."""
    place = Path(tempfile.mkdtemp(prefix="row-differences-"))
    try:
        return run_in(place)
    except Exception:
        return [cases.Outcome(cases.MISMATCH, writer, detail=f"the test failed: {traceback.format_exc()}")]
    finally:
        shutil.rmtree(place)


def lines_of(log: Path) -> Iterator[tuple[int, cases.Outcome | None]]:
    """Yield the number of each folder, without an outcome at its beginning."""
    number = -1
    for line in log.read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        if isinstance(value, int):
            number = value
            yield number, None
        else:
            for name in ("operators", "types", "readers"):
                value[name] = tuple(value[name])
            yield number, cases.Outcome(**value)


class Run:
    """A run of many folders in several processes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.context = multiprocessing.get_context("spawn")
        self.folder = Path(tempfile.mkdtemp(prefix="row-differences-logs-"))
        self.outcomes: list[cases.Outcome] = []
        self.mismatches = 0
        self.next_number = options.first

    def start(self, numbers: list[int]) -> tuple[multiprocessing.process.BaseProcess, Path, list[int]]:
        log = self.folder / f"{numbers[0]}-{time.monotonic_ns()}"
        options = self.options
        target, source = (run_files, options.files) if options.files else (run, options.writer)
        arguments = (options.seed, numbers, source, options.per_folder, str(log))
        process = self.context.Process(target=target, args=arguments)
        process.start()
        return process, log, numbers

    def finish(self, exit_code: int | None, log: Path, numbers: list[int]) -> list[int]:
        """Count the outcomes of a process, and return the folders that it did not check."""
        last = numbers[0] - 1
        for number, outcome in lines_of(log) if log.exists() else ():
            last = number
            if outcome is not None:
                self.add(number, outcome)
        if exit_code == 0:
            return []
        lost = last if last in numbers else numbers[0]
        self.add(lost, cases.Outcome(cases.MISMATCH, "?", detail=f"the process ended with {exit_code}"))
        return [number for number in numbers if number > lost]

    def add(self, number: int, outcome: cases.Outcome) -> None:
        self.outcomes.append(outcome)
        if outcome.result == cases.MISMATCH:
            self.mismatches += 1
            repeat = f"--seed {self.options.seed} --only {number} --per-folder {self.options.per_folder}"
            repeat += f" --writer {self.options.writer}" if self.options.writer else ""
            repeat += f" --files {self.options.files}" if self.options.files else ""
            print(
                f"MISMATCH {outcome.writer}, {outcome.readers or 'pyarrow'}: {repeat}\n{outcome.detail}\n", flush=True
            )

    def all(self) -> None:
        """Start processes until there are enough cases."""
        running: list[tuple[multiprocessing.process.BaseProcess, Path, list[int]]] = []
        begun, printed = time.monotonic(), 0
        while running or len(self.outcomes) < self.options.cases:
            while len(running) < self.options.jobs and len(self.outcomes) < self.options.cases:
                missing = (self.options.cases - len(self.outcomes)) // self.options.per_folder + 1
                count = min(AT_ONCE, missing)
                running.append(self.start(list(range(self.next_number, self.next_number + count))))
                self.next_number += count
            multiprocessing.connection.wait([process.sentinel for process, _, _ in running])
            for entry in list(running):
                process, log, numbers = entry
                if process.exitcode is None:
                    continue
                running.remove(entry)
                rest = self.finish(process.exitcode, log, numbers)
                if rest:
                    running.append(self.start(rest))
            if len(self.outcomes) - printed > 1000:
                printed = len(self.outcomes)
                seconds = time.monotonic() - begun
                print(f"{printed} cases, {self.mismatches} mismatches, {seconds:.0f} s", flush=True)
        shutil.rmtree(self.folder)


def summary(outcomes: list[cases.Outcome]) -> str:
    """Return a table of results by writer, language, operator, type, projection, index and reader."""
    results = sorted({outcome.result for outcome in outcomes})
    lines = [f"{'':28}" + "".join(f"{result[:20]:>22}" for result in results)]
    groups: dict[str, Counter[tuple[str, str]]] = {}

    def add(group: str, names: tuple[str, ...], result: str) -> None:
        for name in names:
            groups.setdefault(group, Counter())[name, result] += 1

    for outcome in outcomes:
        add("", ("all",), outcome.result)
        add("writer", (outcome.writer,), outcome.result)
        add("reader", tuple(reader[:80] for reader in outcome.readers) or ("pyarrow",), outcome.result)
        add("language", (outcome.language,), outcome.result)
        add("operator", outcome.operators, outcome.result)
        add("type", outcome.types, outcome.result)
        add("projection", (outcome.projection,), outcome.result)
        add("index", (outcome.index,), outcome.result)
        answer = "no rows" if outcome.num_rows == 0 else "rows"
        add("answer", (answer,), outcome.result)
    for group, counts in groups.items():
        lines.append(f"-- {group}" if group else "")
        for name in sorted({name for name, _ in counts}):
            lines.append(f"{name:28}" + "".join(f"{counts[name, result]:22}" for result in results))
    reasons = Counter(
        outcome.detail.partition("\n")[0].rpartition(": ")[2][:90]
        for outcome in outcomes
        if outcome.result not in (cases.EQUAL, cases.MISMATCH)
    )
    lines.append("-- the most frequent reasons for other results")
    lines += [f"{count:6} {reason}" for reason, count in reasons.most_common(20)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--writer", choices=list(cases.WEIGHTS))
    parser.add_argument("--files", type=Path, help="a folder with files of other writers")
    parser.add_argument("--per-folder", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the number of the first folder")
    parser.add_argument("--only", type=int, help="check only the folder with this number, in this process")
    options = parser.parse_args()
    if options.files and not readable_files(options.files):
        parser.error(f"pyarrow can read no file in {options.files}")
    if options.only is not None:
        if options.files:
            outcomes = check_file(options.seed, options.only, readable_files(options.files), options.per_folder)
        else:
            outcomes = check(options.seed, options.only, options.writer, options.per_folder)
        for outcome in outcomes:
            print(outcome.result, outcome.writer, outcome.language, outcome.projection, outcome.index)
            print(outcome.detail)
        sys.exit(any(outcome.result == cases.MISMATCH for outcome in outcomes))
    all_cases = Run(options)
    all_cases.all()
    print(summary(all_cases.outcomes))
    sys.exit(all_cases.mismatches > 0)


if __name__ == "__main__":
    main()
