"""Find one hour of events in files that each span weeks: index the event time, explain a plan, write a report."""

from pathlib import Path

import parsieve as ps
import parsieve.cli
from parsieve.demo import lake


def main() -> None:
    events = lake.write(Path("events"), num_files=50, rows_of_a_file=4_000)
    table = ps.open_table(events.folder)
    before = table.plan(events.range)
    print(f"with min/max statistics: {len(before.files)} of {events.num_files} files")

    table.build_index("event_time", progress=False)
    after = table.plan(events.range)
    print(f"with the Sieve index: {len(after.files)} files")
    assert len(after.files) * 4 < len(before.files)
    assert after.to_arrow().num_rows == before.to_arrow().num_rows > 0

    stats = table.index_stats()["event_time"]
    print(f"lookups read {stats.bits_per_row:.1f} bits per row of the index")
    print()
    print(after.explain())

    # The same as an HTML page.
    assert parsieve.cli.main(["report", "events", "--where", events.range, "-o", "hour.html"]) == 0
    assert Path("hour.html").stat().st_size > 10_000


if __name__ == "__main__":
    main()
