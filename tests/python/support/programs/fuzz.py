"""Run the fuzz targets, keep their corpora, or report which lines of the parsers they reach.

    PYTHONPATH=tests/python python tests/python/support/programs/fuzz.py run --seconds 600 [TARGET ...]
    PYTHONPATH=tests/python python tests/python/support/programs/fuzz.py coverage [TARGET ...]
    PYTHONPATH=tests/python python tests/python/support/programs/fuzz.py pack [TARGET ...]

`run` starts with the seeds of each target and the inputs in `fuzz/seeds` and `fuzz/corpus`, and adds the inputs that
reach new code. Afterwards, `fuzz/corpus` has the fewest inputs that reach the same code. `pack` writes these into
`fuzz/seeds`, which is in git. To drop old inputs, delete the archives first. A run of five minutes or
more is appended to the ledger of long runs, with its processor time.

`coverage` runs the inputs in `fuzz/corpus` on programs that count the executed lines. It needs rustup's llvm-tools.
With `--save`, it is appended to the ledger of long runs.

Build the programs first, with `make fuzz` or `make fuzz-coverage`.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from support.programs import long_runs

ROOT = Path(__file__).resolve().parents[4]
FUZZ = ROOT / "fuzz"
TARGETS = sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))
# A shorter run is not recorded, for example the minute of `make fuzz-smoke`.
SHORTEST_SECONDS = 300
LIMITS = ("-timeout=10", "-max_len=8192", "-rss_limit_mb=1024")


def run(target: str, seconds: int) -> dict[str, object]:
    """Fuzz one target, and reduce its corpus. Return the fields of its line in the ledger."""
    corpus, artifacts = unpack(target), FUZZ / "artifacts" / target
    artifacts.mkdir(parents=True, exist_ok=True)
    command = [str(_program(target)), str(corpus), f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/"]
    with (FUZZ / "artifacts" / f"{target}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *LIMITS], env={**os.environ, "FUZZ_SEEDS": str(corpus)}, stdout=log, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = Path(log.name).read_text(encoding="utf-8", errors="replace")
    print(target, *text.splitlines()[-40 if process.returncode else -1 :], sep="\n", flush=True)
    if not process.returncode:
        reduce(target)
    executions, new_edges = progress(text, seconds)
    return {
        "command": f"fuzz {target}",
        "hours": round((usage.ru_utime + usage.ru_stime) / 3600, 3),
        "executions": executions,
        "new_edges_in_last_hour": new_edges,
        "findings": failed_inputs(text, process.returncode),
    }


def failed_inputs(log: str, status: int) -> list[str]:
    """Return the names of the inputs that failed."""
    names = re.findall(r"Test unit written to (\S+)", log)
    return [Path(name).name for name in names] or (["the program failed"] if status else [])


def progress(log: str, seconds: int) -> tuple[int, int]:
    """Return the number of executions, and how many edges the last hour added.

    libFuzzer logs no times, so an hour is its share of the executions. A shorter run is compared with its beginning.
    """
    # Earlier lines are about the inputs of the corpus.
    log = log[log.rfind("\n", 0, max(log.find("INITED"), 0)) + 1 :]
    lines = [(int(number), int(edges)) for number, edges in re.findall(r"^#(\d+)\s.*?\bcov: (\d+)", log, re.MULTILINE)]
    if not lines:
        return 0, 0
    executions, edges = lines[-1]
    begin = executions * (1 - min(1, 3600 / seconds))
    before = [earlier for number, earlier in lines if number <= begin] or [lines[0][1]]
    return executions, edges - before[-1]


def reduce(target: str) -> None:
    """Keep the fewest inputs of a corpus that reach the same code."""
    corpus = FUZZ / "corpus" / target
    reduced = corpus.with_name(f"{target}.reduced")
    # An interrupted run leaves this folder behind.
    shutil.rmtree(reduced, ignore_errors=True)
    reduced.mkdir()
    subprocess.run(
        [str(_program(target)), "-merge=1", str(reduced), str(corpus), *LIMITS], capture_output=True, check=True
    )
    shutil.rmtree(corpus)
    reduced.rename(corpus)


def pack(target: str) -> Path:
    """Write the corpus of a target into an archive, and return its path. The same inputs have the same archive."""
    archive = FUZZ / "seeds" / f"{target}.tar.xz"
    archive.parent.mkdir(exist_ok=True)
    # Inputs of similar length are often similar.
    inputs = sorted({path.read_bytes() for path in unpack(target).iterdir()}, key=lambda data: (len(data), data))
    if not inputs:
        raise SystemExit(f"fuzz/corpus/{target} has no inputs. `make fuzz` writes them.")
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for number, data in enumerate(inputs):
            member = tarfile.TarInfo(str(number))
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return archive


def unpack(target: str) -> Path:
    """Return the corpus of a target, with the inputs of the archive. `reduce` removes redundant inputs."""
    corpus, archive = FUZZ / "corpus" / target, FUZZ / "seeds" / f"{target}.tar.xz"
    corpus.mkdir(parents=True, exist_ok=True)
    if archive.exists():
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                data = content.read()
                # libFuzzer names inputs in the same way.
                (corpus / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    return corpus


@dataclass(frozen=True)
class Reached:
    """The number of lines with code in a source file, and the lines that no input reached."""

    lines: int
    missing: tuple[int, ...]

    def ranges(self) -> str:
        """Return the missing lines, for example "3-5, 9"."""
        ranges: list[list[int]] = []
        for line in self.missing:
            if ranges and line == ranges[-1][-1] + 1:
                ranges[-1] = [ranges[-1][0], line]
            else:
                ranges.append([line])
        return ", ".join("-".join(map(str, ends)) for ends in ranges)


def coverage(targets: Sequence[str]) -> dict[str, Reached]:
    """Run the inputs of each target on programs that count lines. Return the result for each source file."""
    programs = [_program(target, "target/coverage") for target in targets]
    profiles = FUZZ / "target/coverage/profiles"
    shutil.rmtree(profiles, ignore_errors=True)
    for target, program in zip(targets, programs, strict=True):
        corpus = unpack(target)
        environment = {"LLVM_PROFILE_FILE": str(profiles / f"{target}.profraw"), "FUZZ_SEEDS": str(corpus)}
        subprocess.run(
            [str(program), "-runs=0", *LIMITS, str(corpus)],
            env={**os.environ, **environment},
            capture_output=True,
            check=True,
        )
    merged = profiles / "all.profdata"
    _llvm("llvm-profdata", "merge", "-sparse", f"--output={merged}", *map(str, profiles.glob("*.profraw")))
    objects = [part for program in programs[1:] for part in ("--object", str(program))]
    report = _llvm("llvm-cov", "export", "--format=lcov", f"--instr-profile={merged}", str(programs[0]), *objects)
    return parse_report(report)


def parse_report(report: str) -> dict[str, Reached]:
    """Return the lines of each source file of the core, from a report in lcov's format."""
    counts: dict[str, dict[int, int]] = {}
    for line in report.splitlines():
        kind, _, value = line.partition(":")
        if kind == "SF":
            path = Path(value)
            is_core = path.is_relative_to(ROOT / "src")
            lines = counts.setdefault(path.relative_to(ROOT).as_posix(), {}) if is_core else {}
        elif kind == "DA":
            number, count = map(int, value.split(",")[:2])
            lines[number] = max(lines.get(number, 0), count)
    return {
        path: Reached(len(lines), tuple(sorted(number for number, count in lines.items() if not count)))
        for path, lines in sorted(counts.items())
    }


def _llvm(tool: str, *arguments: str) -> str:
    """Run a tool of rustup's component llvm-tools, and return its output."""
    root = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [program] = Path(root.strip()).glob(f"lib/rustlib/*/bin/{tool}")
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout


def _program(target: str, folder: str = "target") -> Path:
    programs = list(FUZZ.glob(f"{folder}/*/release/{target}"))
    if len(programs) != 1:
        raise SystemExit(f"no program of {target} in fuzz/{folder}: build it with `make fuzz` or `make fuzz-coverage`")
    return programs[0]


def main() -> int:
    """Run a command. Return 1 if an input failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "coverage", "pack"])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at the same time")
    parser.add_argument("--save", action="store_true", help="append the coverage to the ledger of long runs")
    options = parser.parse_intermixed_args()
    targets = options.targets or TARGETS
    if options.command == "run":
        with ThreadPoolExecutor(options.jobs) as pool:
            failed = False
            for done in pool.map(lambda target: run(target, options.seconds), targets):
                failed |= bool(done["findings"])
                if options.seconds >= SHORTEST_SECONDS:
                    long_runs.append(**done)
            return int(failed)
    if options.command == "pack":
        for target in targets:
            archive = pack(target)
            print(f"{archive.stat().st_size:9,} bytes  {archive.relative_to(ROOT)}")
        return 0
    reached = coverage(targets)
    for path, file in reached.items():
        print(f"{1 - len(file.missing) / file.lines:7.1%} of {file.lines:4} lines  {path}  {file.ranges()}")
    if options.save:
        lines = {path: [file.lines - len(file.missing), file.lines] for path, file in reached.items()}
        long_runs.append(command="make fuzz-coverage", lines_reached=lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
