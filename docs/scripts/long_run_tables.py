"""Turns the ledger of long runs into Markdown tables: random programs, fuzzing, mutants, and runs of tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from measured_tables import Records, as_table

LEDGER = "long-runs"


def random_programs(records: Records) -> str:
    """Return the hours, the seeds or executions, and the findings of each random program and fuzz target."""
    by_command = defaultdict(list)
    for run in _runs(records):
        if "findings" in run and "summaries" not in run:
            by_command[run["command"]].append(run)
    if not by_command:
        return "There is no record yet. `make soak` and `make fuzz` write one."
    rows = [
        [
            f"`{command}`",
            f"{sum(run['hours'] for run in runs):.2f}",
            f"{sum(run.get('executions', len(run.get('seeds', ()))) for run in runs):,}",
            f"{sum(len(run['findings']) for run in runs)}",
        ]
        for command, runs in sorted(by_command.items())
    ]
    return as_table(["program", "hours", "seeds or executions", "findings"], rows)


# The folders and files that decode untrusted bytes. The others write, hash, build or answer queries.
PARSERS = (
    *("src/avro/", "src/bloom/header.rs", "src/bloom_index.rs", "src/crypto/", "src/cursor.rs", "src/delta/"),
    *("src/json/", "src/parquet/meta/", "src/parquet/open/", "src/parquet/pages/", "src/thrift/", "src/varint.rs"),
    *(f"src/page_map/{name}.rs" for name in ("bits", "block", "directory", "file_map", "footer", "reader", "run")),
    *("src/page_map/schema.rs", *(f"src/parquet/filter/{name}.rs" for name in ("locate", "patch", "probe"))),
    *(f"src/rows/{name}.rs" for name in ("batches", "contain", "file", "levels", "load", "pages", "parts")),
    *(f"src/rows/{name}.rs" for name in ("readable", "scan", "schema", "values")),
    *("src/sieve/code/", "src/sieve/record/key_section.rs", "src/sieve/unit/"),
    *(f"src/sieve/index/{name}.rs" for name in ("directory", "loaded", "root", "unit_root", "unit_table")),
    *(f"src/sieve/segment/{name}.rs" for name in ("absent", "block", "cache_entry", "decoded", "packed", "runs")),
    *(f"src/sieve/version/{name}.rs" for name in ("delta", "unit_delta")),
)
# A file with fewer of its lines reached is listed.
FEW = 0.9


def fuzz_coverage(records: Records) -> str:
    """Return how many lines of each folder of parsers the corpora of the fuzz targets reach."""
    runs = [run for run in _runs(records) if "lines_reached" in run]
    if not runs:
        return "There is no record yet. `make fuzz-coverage` writes one."
    parsers = {path: counts for path, counts in runs[-1]["lines_reached"].items() if path.startswith(PARSERS)}
    folders: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, counts in parsers.items():
        folder = "/".join(path.split("/")[:3] if path.count("/") > 2 else path.split("/")[:-1])
        for name in (folder, ""):
            folders[name] = [total + count for total, count in zip(folders[name], counts, strict=True)]
    everything = folders.pop("", [0, 1])
    rows = [
        [f"`{folder}`" + (" (files)" if folder == "src" else ""), f"{lines:,}", f"{reached / lines:.1%}"]
        for folder, (reached, lines) in folders.items()
    ]
    rows.append(["all", f"{everything[1]:,}", f"{everything[0] / everything[1]:.1%}"])
    table = as_table(["folder", "lines", "reached"], rows)
    few = [
        f"`{path.removeprefix('src/')}` ({lines - reached})"
        for path, (reached, lines) in parsers.items()
        if reached / lines < FEW
    ]
    intro = f"The inputs reach less than {FEW:.0%} of the lines in these files."
    return f"{table}\n\n{intro} The number of missed lines is in parentheses: {', '.join(few) or 'none'}."


def tests_under_load(records: Records) -> str:
    """Return the commits, the hours and the results of the test runs under load."""
    runs = [run for run in _runs(records) if "summaries" in run and "busy loops" in run["command"]]
    if not runs:
        return "There is no record yet. `make test-under-load` writes one."
    rows = [[run["date"], run["commit"], f"{run['hours']:.1f}", *_results(run)] for run in runs]
    return as_table(["date", "commit", "hours", "tests passed", "tests failed"], rows)


def other_tests(records: Records) -> str:
    """Return the results of the newest run of each other test command."""
    newest = {
        run["command"]: run for run in _runs(records) if "summaries" in run and "busy loops" not in run["command"]
    }
    if not newest:
        return "There is no record yet. `long_runs.py record make miri` writes one."
    rows = [
        [f"`{command}`", run["date"], run["commit"], f"{run['hours'] * 60:.0f}", *_results(run)]
        for command, run in sorted(newest.items())
    ]
    return as_table(["command", "date", "commit", "minutes", "tests passed", "tests failed"], rows)


def mutants(records: Records) -> str:
    """Return how many of the random changes of each folder the tests noticed."""
    runs = [run for run in _runs(records) if "mutants" in run]
    if not runs:
        return "There is no record yet. `make mutants` writes one."
    rows = [
        [
            f"`{run['command'].removeprefix('mutants ')}`",
            run["date"],
            run["commit"],
            f"{run['seeds'][0]}",
            f"{run['mutants']:,}",
            f"{run['mutants'] - len(run['unnoticed']):,} ({1 - len(run['unnoticed']) / run['mutants']:.1%})",
        ]
        for run in runs
    ]
    return as_table(["folder", "date", "commit", "seed", "changes", "noticed"], rows)


def _results(run: dict[str, Any]) -> list[str]:
    passed = sum(int(summary.split(" passed")[0].split()[-1]) for summary in run["summaries"])
    return [f"{passed:,}", ", ".join(f"`{finding}`" for finding in run["findings"]) or "none"]


def _runs(records: Records) -> Iterable[dict[str, Any]]:
    record = records.get(LEDGER)
    return [] if record is None else record.data["runs"]


SECTIONS: dict[str, Callable[[Records], str]] = {
    "random-programs": random_programs,
    "fuzz-coverage": fuzz_coverage,
    "tests-under-load": tests_under_load,
    "other-tests": other_tests,
    "mutants": mutants,
}
