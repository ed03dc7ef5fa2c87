"""Bring the index of a table up to date, from cron, systemd or a CI job.

    update_index.py TABLE COLUMN...

Columns without an index get one. The exit code is 0 if the index covers all files, 1 if it leaves out some of them
(queries read these), and 2 if it could not be updated. Several runs at a time do no harm.
"""

import argparse
import logging
import sys

import parsieve as ps


def update(source: str, columns: list[str]) -> bool:
    """Update the index, and build it for new columns. Return whether it covers all files."""
    table = ps.open_table(source)
    missing = [column for column in columns if column not in table.index_kinds()]
    if missing:
        table.build_index(missing, kind="sieve", progress=False)
    updated = table.update_index(progress=False)
    table.expire_index()
    return not updated.left_out


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Bring the index of a table up to date.")
    parser.add_argument("table")
    parser.add_argument("columns", nargs="+")
    options = parser.parse_args(arguments)
    # parsieve writes a line for each step; cron mails them, and systemd keeps them.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    try:
        return 0 if update(options.table, options.columns) else 1
    except (ps.ParsieveError, OSError) as error:
        logging.error("%s: %s", options.table, error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
