"""Ask engines many random queries on tables of parsieve and on their rows in memory, and print those that differ.

PYTHONPATH=tests/python .venv/bin/python tests/python/support/programs/engine_differences.py --queries 5000
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from support import engines, formats

QUERIES_OF_A_TABLE = 50


def main() -> int:
    """Print the differences of each engine, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=5000, help="queries of each engine (default: %(default)s)")
    parser.add_argument("--engine", choices=engines.ENGINES, action="append", help="ask this engine (default: all)")
    parser.add_argument("--seed", default="1")
    arguments = parser.parse_args()
    names = arguments.engine or list(engines.ENGINES)
    total = dict.fromkeys(names, 0)
    for number in range(-(-arguments.queries // QUERIES_OF_A_TABLE)):
        seed = f"{arguments.seed} {number}"
        random_ = random.Random(seed)
        format_ = random_.choice(list(formats.FORMATS))
        with tempfile.TemporaryDirectory() as folder:
            table = engines.random_table(random_, Path(folder) / "t", format_, indexed=random_.random() < 0.5)
            for engine in names:
                different = engines.differences(engine, table, seed, QUERIES_OF_A_TABLE)
                total[engine] += len(different)
                print(*different, sep="\n", end="\n" if different else "", flush=True)
    print({engine: f"{count} of {arguments.queries} differ" for engine, count in total.items()})
    return int(any(total.values()))


if __name__ == "__main__":
    sys.exit(main())
