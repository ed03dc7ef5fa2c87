"""Make random changes to a folder of the Rust core, and list the changes that its unit tests miss.

    PYTHONPATH=tests/python python tests/python/support/programs/rust_mutants.py thrift --count 300 --seed 1

This needs cargo-mutants and cargo-nextest. If a folder has more changes than `--count`, it is divided into parts, and
the seed selects one. With `--save`, the result is appended to the ledger of long runs, also if the program is stopped
before its end.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from support.programs import long_runs

ROOT = Path(__file__).resolve().parents[4]
# The longest time of the tests for one change, in seconds.
TEST_LIMIT = 900
# The most memory of a compiler or a test, in bytes. Some changes make a loop that never stops allocating.
MEMORY_LIMIT = 6 << 30
# Changes to exclude: most of these do not compile, and the next change is then compiled from scratch.
EXCLUDED = "Default::default"
# Tests that take three seconds or more without optimization. They run only for changes of their own folder.
SLOW = (
    "/decoded|model|sorted|histories|value_set|absent|unit::page|page_map::tests::damage|scan|build::|many_values"
    "|pages::decode|file_metadata|rewrite|patch|unit_parts|random_strings/"
)
TESTS = "test(/^{folder}::/) or not test({slow})"
# Quick tests of the folder run first, and slow ones run last. A test that takes too long counts as failed.
TEST_ORDER = """
[profile.default]
slow-timeout = {{ period = "60s", terminate-after = 1 }}

[[profile.default.overrides]]
filter = 'test(/^{folder}::/) and not test({slow})'
priority = 100

[[profile.default.overrides]]
filter = 'test(/^{folder}::/)'
priority = -100
slow-timeout = {{ period = "60s", terminate-after = 2 }}
"""


def count_mutants(folder: str) -> int:
    """Return the number of changes that cargo-mutants can make to a folder."""
    listed = subprocess.run([*_cargo_mutants(folder), "--list", "--json"], cwd=ROOT, capture_output=True, check=True)
    return len(json.loads(listed.stdout))


def run_mutants(folder: str, part: str, features: str, output: Path) -> None:
    """Try a part of the changes to a folder. `output` gets the folder mutants.out.

    Raises if cargo-mutants cannot run, or if the tests fail without a change.
    """
    # cargo-mutants copies the repository, without the files of other writers that are next to it.
    if (ROOT.parent / "shared").exists():
        (output / "shared").symlink_to(ROOT.parent / "shared")
    config = output / "nextest.toml"
    names = {"folder": folder.replace("/", "::"), "slow": SLOW}
    config.write_text(TEST_ORDER.format(**names))
    done = subprocess.run(
        [
            *_cargo_mutants(folder),
            *("--shard", part, "--sharding", "round-robin", "--no-shuffle"),
            *("--profile", "mutants", "--features", features, "--cargo-arg=--locked", "--cargo-arg=--lib"),
            *("--test-tool", "nextest", f"--cargo-test-arg=--config-file={config}"),
            f"--cargo-test-arg=--filterset={TESTS.format(**names)}",
            *("--timeout", str(TEST_LIMIT), "--output", str(output)),
        ],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(output)},
        check=False,
    )
    # 2: the tests missed a change. 3: they took too long.
    if done.returncode not in (0, 2, 3):
        raise SystemExit(f"cargo mutants failed with exit code {done.returncode}")


def _cargo_mutants(folder: str) -> list[str]:
    return ["cargo", "mutants", "--file", f"src/{folder}/**", "--exclude-re", EXCLUDED]


def read_outcomes(output: Path) -> list[tuple[str, bool]]:
    """Return the changes whose tests ran, and whether the tests noticed each of them."""
    path = output / "mutants.out" / "outcomes.json"
    if not path.exists():
        return []
    outcomes: list[dict[str, Any]] = json.loads(path.read_text())["outcomes"]
    return [
        (outcome["scenario"]["Mutant"]["name"], outcome["summary"] != "MissedMutant")
        for outcome in outcomes
        if outcome["scenario"] != "Baseline" and outcome["summary"] in ("CaughtMutant", "MissedMutant", "Timeout")
    ]


def main() -> None:
    """Try a part of the mutants of a folder, and print the ones that the tests miss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a folder of src, for example sieve/segment")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--features", default="", help="the features of the crate")
    parser.add_argument("--save", action="store_true", help="append the result to the ledger of long runs")
    options = parser.parse_args()
    begun = time.monotonic()
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    total = count_mutants(options.folder)
    parts = -(-total // options.count)
    # A stopped run ends with the changes that it has tried.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            run_mutants(options.folder, f"{options.seed % parts}/{parts}", options.features, Path(folder))
        finally:
            outcomes = read_outcomes(Path(folder))
            unnoticed = [name for name, is_noticed in outcomes if not is_noticed]
            noticed = len(outcomes) - len(unnoticed)
            for name in unnoticed:
                print(name)
            print(f"{noticed} of {len(outcomes)} mutants noticed ({total:,} in src/{options.folder})")
            if options.save and outcomes:
                seconds = time.monotonic() - begun
                long_runs.record_mutants(f"src/{options.folder}", options.seed, seconds, len(outcomes), unnoticed)


if __name__ == "__main__":
    main()
