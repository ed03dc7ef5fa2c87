"""Count the instructions per value of hashes and Bloom filters on aarch64, where QEMU cannot measure time.

    make bench-aarch64

`benches/instructions/main.rs` repeats an operation, and a plugin of QEMU counts all instructions of the program. The
difference between two numbers of repetitions does not contain the start of the program.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATIONS = ["hash-u32", "hash-u64", "insert", "check"]
VALUES = 4096
ROUNDS = (10, 30)


def main() -> int:
    """Count the instructions of each operation, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="the bench `instructions`, built for aarch64")
    parser.add_argument("--qemu", default="qemu-aarch64 -L /usr/aarch64-linux-gnu")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    counts: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder) / "count.so"
        source = ROOT / "benches" / "instructions" / "count.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, source], check=True)
        for operation in OPERATIONS:
            command = [*options.qemu.split(), "-plugin", str(plugin), str(options.program), operation]
            few, many = (_count([*command, str(rounds)]) for rounds in ROUNDS)
            counts[operation] = round((many - few) / (ROUNDS[1] - ROUNDS[0]) / VALUES, 1)
            print(f"{operation:10} {counts[operation]:5.1f} instructions per value")
    if options.save:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        today = dt.date.today().isoformat()
        record = {"date": today, "commit": commit.stdout.strip(), "instructions_per_value": counts}
        path = ROOT / "benches" / "results" / f"instructions-aarch64-{today}.json"
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


def _count(command: list[str]) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
