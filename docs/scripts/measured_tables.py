"""Turns benchmark records into Markdown tables: one function for each section of a page."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from parsieve.report.figures import Unit, written


class Record(NamedTuple):
    """A file of benches/results."""

    name: str
    data: dict[str, Any]

    @property
    def source(self) -> str:
        """Return the date, machine, commit and file of the measurements."""
        machine = self.data["machine"]
        cores = {1: "one core", 2: "two cores"}.get(machine["cores"], f"{machine['cores']} cores")
        cpu = machine["cpu"].replace("(R)", "").replace(" Processor", "").strip()
        return (
            f"{self.data['date']}, {cores} of an {cpu}, commit {self.data['commit'][:7]}; `benches/results/{self.name}`"
        )


Records = Mapping[str, Record]
SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM = "full scan", "min/max", "Bloom per file", "Sieve", "optimum"
SORT = "Spark's sort"
# The four charts of the lineitem benchmark: file name and figure title. The table below them has the same numbers.
LINEITEM_CHARTS = {
    "points": "point queries, seconds",
    "intervals": "intervals of l_orderkey, seconds",
    "build": "build time",
    "size": "size that queries read",
}
ALONE, WITH = "alone", "with parsieve"
COST = "writer's cost of a filter"


def as_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def as_number(value: float) -> str:
    """Format a number with three digits and thousands separators."""
    return written(value, "")


def as_mean(value: float) -> str:
    """Format a mean number of files: with one decimal below 100."""
    return f"{value:,.0f}" if value >= 99.95 or round(value, 1) == int(value) else f"{value:.1f}"


def layouts(files: int, records: Records) -> str:
    """Return the files that each kind of plan reads from each layout."""
    record = records["layouts-python"]
    cases = [case for case in record.data["cases"] if case["files"] == files]

    def reads(case: dict[str, Any], kind: str) -> str:
        files_read = case["files_read"].get(kind)
        if files_read is None:
            return "-"
        means = {way: as_mean(files_read[way]) for way in (MINMAX, BLOOM, SIEVE, OPTIMUM)}
        return f"{means[MINMAX]} / {means[BLOOM]} / **{means[SIEVE]}** / {means[OPTIMUM]}"

    rows = [
        [
            case["about"],
            *(reads(case, kind) for kind in ("present", "absent", "narrow", "wide")),
            " / ".join(f"{case['lookup_bits_per_row'][way]:.1f}" for way in (BLOOM, SIEVE)),
        ]
        for case in cases
    ]
    head = ["layout", "one key", "missing key", "1/10,000 of the rows", "1/100", "bits per row: Bloom / Sieve"]
    return (
        f"Files read out of {files:,}, with {cases[0]['rows'] // files:,} rows each. Each cell shows min/max / a Bloom "
        f"filter per file / **the Sieve** / the optimum, as means of {cases[0]['questions']} queries "
        f"({record.source}).\n\n{as_table(head, rows)}"
    )


def lineitem(rows: int, first_index: str, records: Records) -> str:
    """Return the queries of the lineitem benchmark on Hudi, and the cost of the indexes."""
    record = records.get(f"thesis-{rows}-spark")
    if record is None:
        command = f"benches/spark/thesis.py FOLDER --rows {rows} --rows-of-a-commit 10000000 --lean --save"
        return (
            f"There is no record of {rows / 1e6:g} million rows yet. Run `{command}` to create it; you can interrupt "
            "and resume it."
        )
    case = record.data["cases"][0]
    kinds = {
        "point": "one {name}",
        "absent key": "a missing {name}",
        "1e-06": "1/1,000,000 of the {name}s",
        "1e-05": "1/100,000",
        "0.0001": "1/10,000",
        "0.001": "1/1,000",
        "0.01": "1/100",
    }
    lines = []
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        for kind, label in kinds.items():
            queries = [query for query in case["asked"] if (query["column"], query["kind"]) == (column, kind)]
            # An interval that covers a single key is a point query.
            is_point = kind in ("point", "absent key")
            if not queries or (not is_point and all(query["low"] == query["high"] for query in queries)):
                continue
            median_rows = statistics.median(query["rows"] for query in queries)
            cells = [f"{label.format(name=name)} ({as_number(median_rows)} rows)"]
            for way in (SCAN, MINMAX, BLOOM, SIEVE):
                results = [query["ways"][way] for query in queries if way in query["ways"]]
                files, seconds = (
                    statistics.median(result[key] for result in results) if results else 0
                    for key in ("files", "seconds")
                )
                cells.append(f"{as_number(files)}, {seconds:.2g} s" if results else "-")
            lines.append([*cells, as_number(statistics.median(query["least_files"] for query in queries))])
    counts = [
        sum((query["column"], query["kind"]) == ("l_orderkey", kind) for query in case["asked"]) for kind in kinds
    ]
    built = case["built"]
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        times = [f"{built[way][column]['seconds']:.3g} s" for way in (MINMAX, BLOOM, SIEVE)]
        sort = f"(Spark's sort: {built[SORT][column]['seconds']:.3g} s)" if SORT in built else ""
        lines.append([f"build, {name}", "", *times, sort])
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        sizes = [as_bytes(built[way][column]["bytes"]) for way in (MINMAX, BLOOM, SIEVE)]
        lines.append([f"size that queries read, {name}", "", *sizes, ""])
    millions = f"{rows / 1e6:g}"
    pictures = "\n".join(
        f"![{title[0].upper()}{title[1:]}, {millions} million rows. The table below has the same numbers.]"
        f"(../pictures/lineitem-{millions}-{name}.png)"
        for name, title in LINEITEM_CHARTS.items()
    )
    upkeep = [as_bytes(built[SIEVE][column]["bytes_for_maintenance"]) for column in ("l_orderkey", "l_partkey")]
    size = as_bytes(built[SIEVE]["l_orderkey"]["bytes"])
    return (
        f"{millions} million rows in {case['files']:,} files ({as_bytes(case['bytes'])}), Spark with "
        f"{case['memory'].replace('g', ' GB')}. Each cell shows the files read and the seconds taken, planning "
        f"included: medians of {counts[0]} queries for each kind of key, and of {counts[-1]} for each width of "
        f"interval ({record.source}).\n\n{pictures}\n\n"
        f"{as_table(['', SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM], lines)}\n\n"
        f"Queries read {size} of the order key's index; the first prototype's index of this key took {first_index}. "
        f"This index also stored its keys and counts, for deletes and compaction. They took another {upkeep[0]} on "
        f"disk ({upkeep[1]} for the part key), and queries did not read them. Newer indexes do not store them by "
        "default."
    )


def large(records: Records) -> str:
    """Return the build of an index that is larger than Spark's memory."""
    record = records.get("large-build-spark")
    if record is None:
        return (
            "There is no record of this build yet. Run `benches/spark/large.py FOLDER --save` to create it; you can "
            "interrupt and resume it."
        )
    case = record.data["cases"][0]
    build, lookup = case["build"], case["look_up"]
    sort = f" Spark's own sort of the column takes {case['sort']['seconds']:,.0f} s." if "sort" in case else ""
    keys = as_bytes(build["keys_bytes"])
    return (
        f"{case['rows'] / 1e6:g} million rows in {case['files']:,} files ({as_bytes(case['table_bytes'])}), Spark with "
        f"{case['memory'].replace('g', ' GB')}. The build took {build['seconds']:,.0f} s and at most "
        f"{as_bytes(build['peak_bytes_of_all_processes'])} in all processes together "
        f"({as_bytes(build['peak_bytes_of_java'])} in Java). Lookups read {build['bits_per_row']:.1f} bits per row "
        f"({as_bytes(build['lookup_bytes'])}). The keys, which newer indexes do not store by default, take "
        f"{keys}.{sort} A query for one key keeps {lookup['files_kept']:.2f} files on average, and its plan takes "
        f"{lookup['plan_ms']:.1f} ms ({record.source})."
    )


def as_bytes(value: float) -> str:
    """Format a number of bytes with its unit."""
    return written(value, "bytes")


def indexes(records: Records) -> str:
    """Return the comparison of Hudi's own indexes with the Sieve index."""
    record = records.get("indexes-spark")
    if record is None:
        return "There is no record yet. Run `benches/spark/indexes.py --rows 20000000 --save` to create it."
    about, *cases = record.data["cases"]
    lines = []
    for name, contender in about["contenders"].items():
        cells = [strong(name, name == "parsieve")]
        for case in cases:
            seconds = case["seconds"].get(name)
            cells.append(f"{case['files'][name]}, {statistics.median(seconds):.2g} s" if seconds else "-")
        # A step that failed has zero seconds.
        times = [contender[f"{step}_seconds"] for step in ("build", "update")]
        cells += [f"{seconds:.3g} s" if seconds else "-" for seconds in times]
        lines.append([*cells, as_bytes(contender["index_bytes"]["built"])])
    queries = [f"{case['question']}, {case['moment']}" for case in cases]
    # The message without Java's stack trace.
    failures = [
        f"{name}: {contender['failed'].split(' at ')[0]}"
        for name, contender in about["contenders"].items()
        if contender["failed"]
    ]
    note = "\n\nFailures in Hudi: `" + "`; `".join(failures) + "`." if failures else ""
    return (
        f"{about['rows'] / 1e6:g} million rows in {about['files']:,} files. Each cell shows the files read and the "
        f"median seconds ({record.source}).\n\n"
        f"{as_table(['', *queries, 'build', 'upsert and update', 'index'], lines)}{note}"
    )


def engines(records: Records) -> str:
    """Return the queries of four engines on a sample lake, in three places."""
    record = records.get("engines-spark")
    if record is None:
        return "There is no record yet. Run `benches/spark/engines.py --save` to create it."
    cases = record.data["cases"]
    places = {"warm": "warm", "cold": "cold", "far": "20 ms away"}
    lines = []
    for warm in (case for case in cases if case["place"] == "warm"):
        cells = [f"{warm['question']}, {warm['engine']}"]
        for place in places:
            case = _case(cases, place, warm)
            cells.append(_pair(case["seconds"], "seconds") if case else "-")
        far = _case(cases, "far", warm)
        units: dict[str, Unit] = {"bytes": "bytes", "requests": ""}
        for quantity, unit in units.items():
            cells.append(_pair({way: far["counted"][way][quantity] for way in (ALONE, WITH)}, unit) if far else "-")
        lines.append(cells)
    head = ["query, engine", *(f"{label}: alone → with" for label in places.values()), "bytes", "requests"]
    return f"Medians, planning included ({record.source}).\n\n{as_table(head, lines)}"


def _case(cases: list[dict[str, Any]], place: str, like: dict[str, Any]) -> dict[str, Any] | None:
    key = (place, like["question"], like["engine"])
    return next((case for case in cases if (case["place"], case["question"], case["engine"]) == key), None)


def _pair(values: Mapping[str, float], unit: Unit) -> str:
    """Format the values alone and with parsieve, with the better one in bold."""
    alone, ours = (written(values[way], unit) for way in (ALONE, WITH))
    return f"{alone} → **{ours}**" if values[WITH] < values[ALONE] else f"**{alone}** → {ours}"


def tables(records: Records) -> str:
    """Return the times of a point and a range query, with three engines."""
    record = records["tables-python"]
    cases = record.data["cases"]
    lake = next(case for case in cases if case.get("case") == "late events")
    lines = []
    for question, name in (("point", "one user"), ("range", "one hour")):
        by_engine = {case["engine"]: case for case in cases if case.get("question") == question}
        files = by_engine["pyarrow"]["files"]
        times = {engine: case["milliseconds"] for engine, case in by_engine.items()}
        pairs = [
            f"{as_number(round(times[engine]['alone']))} → **{as_number(round(times[engine]['parsieve']))}** ms"
            for engine in ("pyarrow", "polars", "duckdb")
        ]
        least, most = (pick(case["bytes_read"]["alone"] for case in by_engine.values()) for pick in (min, max))
        ours = max(case["bytes_read"]["parsieve"] for case in by_engine.values())
        read = f"{as_bytes(least)} to {as_bytes(most)} → {as_bytes(ours)}"
        lines.append([name, f"{files['alone']} → {files['parsieve']}", *pairs, read])
    return (
        f"{as_table(['query', 'files read', 'pyarrow', 'Polars', 'DuckDB', 'bytes read'], lines)}\n\n"
        f"Each cell shows the engine alone → the engine on the files of a plan, including planning: "
        f"{lake['rows'] / 1e6:g} million events in "
        f"{files['alone']} files ({as_bytes(lake['bytes'])}, in memory). Some events arrived late, and user ids are in "
        f"no order. Building both indexes takes {lake['build_seconds']:.0f} s ({record.source})."
    )


def many_files(records: Records) -> str:
    """Return the time that a plan over many files takes."""
    record = records["tables-python"]
    cases = record.data["cases"]
    index = next(case for case in cases if case.get("case") == "late events")["index"].values()
    many = {case["format"]: case for case in cases if case.get("case") == "many files"}
    warm = {name: case["milliseconds"]["warm"] for name, case in many.items()}
    listing = many["plain"]["milliseconds"]["names and stat alone"]
    memory = [case["mib_held"] for case in many.values()]
    return (
        f"Planning a point query over {many['plain']['files']:,} files that did not change takes {warm['delta']:.0f} "
        f"ms for Delta, {warm['iceberg']:.0f} ms for Iceberg, and {warm['plain']:.0f} ms for a plain folder, where "
        f"listing the names and one `stat` per file take {listing:.0f} ms. The first plan makes "
        f"{many['delta']['requests']['cold']} requests in addition to reading the listing or log. An open table uses "
        f"{min(memory):.0f} to {max(memory):.0f} MiB of memory. In the table of late events, the parts of the two "
        f"indexes that lookups read take {sum(column['bits_per_row'] for column in index):.1f} bits per row together "
        f"({record.source})."
    )


def speed(records: Records) -> str:
    """Return the speed of filters in memory, compared with other libraries."""
    rust, python = records["bloom-rust"], records["bloom-python"]
    peers = {"`parquet` crate": "parquet", "sbbf-rs-safe": "sbbf-rs-safe"}
    ours = {"parsieve AVX2": "parsieve avx2", "parsieve AVX-512": "parsieve avx512"}
    contenders = peers | ours
    lines = []
    for size, name in ((262_144, "256 KiB filter"), (134_217_728, "128 MiB filter")):
        for operation in ("insert", "check"):
            times = _timings(rust, operation, size)
            best = min(times[contender] for contender in contenders.values())
            cells = [strong(f"{times[contender]:.1f}", times[contender] == best) for contender in contenders.values()]
            lines.append([f"{operation}, {name}", *cells])
    insert, check = (_timings(python, operation, 16_777_216) for operation in ("insert", "check"))
    libraries = {
        "parsieve, from a pyarrow array": "parsieve avx512",
        "parsieve, `threads=2`": "parsieve avx512, 2 threads",
        "abloom, including the list that it needs": "abloom, with the list",
        "rbloom, including the list that it needs": "rbloom, with the list",
    }
    python_lines = [[name, f"{insert[key]:.1f}", f"{check[key]:.1f}"] for name, key in libraries.items()]
    python_lines.append(["extra time of pyarrow's writer for a filter", f"{insert[COST]:.1f}", ""])
    return (
        f"{as_table(['int64, Rust', *peers, *ours], lines)}\n\n"
        f"{as_table(['Python, 10 M int64, 16 MiB filter', 'insert', 'check'], python_lines)}\n\n"
        "Nanoseconds per value, one thread unless noted, the best of several runs in which all contenders of a table "
        f"took turns ({rust.source}, `{python.name}`; `make bench` repeats it)."
    )


def _timings(record: Record, operation: str, num_bytes: int) -> dict[str, float]:
    key = (operation, "int64", num_bytes)
    cases = record.data["cases"]
    [case] = [case for case in cases if (case["operation"], case["values"], case["num_bytes"]) == key]
    return {timing["name"]: timing["min"] for timing in case["timings"]}


def strong(text: str, best: bool) -> str:
    """Set the text of the best contender in bold."""
    return f"**{text}**" if best else text


def rewrite(records: Records) -> str:
    """Return the time to add filters to a large file, and the time to check one key in one file."""
    record, reflink, probe = records["rewrite-python"], records["rewrite-xfs-python"], records["probe-python"]
    contenders = [
        ("parsieve, `in_place=True`", record, "parsieve in place"),
        ("parsieve, replacing the file (copy, compare, sync)", record, "parsieve"),
        ("parsieve, replacing the file on a filesystem that shares blocks (XFS, Btrfs)", reflink, "parsieve"),
        ("pyarrow, rewriting the file", record, "pyarrow"),
        ("DuckDB, rewriting the file", record, "duckdb"),
    ]
    lines = []
    for name, source, key in contenders:
        # The files are as large as the text says with this codec.
        cases = [case for case in source.data["cases"] if case["codec"] == "snappy"]
        medians = {case["column"]: case["medians"][key] for case in cases}
        peak = max(case["peak_mib"] for case in medians.values())
        times = [strong(f"{medians[column]['wall']:.2f} s", key == "parsieve in place") for column in ("id", "text")]
        lines.append([name, *times, f"{peak:,.0f} MiB"])
    case = next(case for case in probe.data["cases"] if case["case"] == "one key in one local file")
    micros, ratios = case["microseconds"], case["times_faster_than_duckdb"]
    open_file, loaded_filter = "parsieve, file held open", "parsieve, filter held"
    return (
        f"{as_table(['', 'int64', 'text of 96 bytes', 'memory'], lines)}\n\n"
        f"Time to add a Bloom filter to a file of 1 GiB ({record.source}, `{reflink.name}`).\n\n"
        f"Looking up one key in one local file takes DuckDB's `parquet_bloom_probe` {micros['duckdb'] / 1e3:.2f} ms. "
        f"It takes parsieve {micros[open_file] / 1e3:.2f} ms with an open file ({ratios[open_file]:.0f} times faster), "
        f"and {micros[loaded_filter] / 1e3:.2f} ms with a filter in memory ({ratios[loaded_filter]:.0f} times; "
        f"`benches/results/{probe.name}`)."
    )


def instructions(records: Records) -> str:
    """Return the instructions per value of hashes and filters on aarch64."""
    record = records["instructions-aarch64"]
    counted = record.data["instructions_per_value"]
    names = {"hash-u32": "hash an int32", "hash-u64": "hash an int64", "insert": "insert", "check": "check"}
    table = as_table(["aarch64", "instructions"], [[names[key], f"{counted[key]:.1f}"] for key in names])
    return (
        f"{table}\n\n"
        "Instructions per value, counted in QEMU, which cannot measure time. Inserts and checks use NEON "
        f"({record.data['date']}, commit {record.data['commit']}, a filter of 32 KiB; `benches/results/{record.name}`; "
        "`make bench-aarch64` repeats it)."
    )


# The lineitem sections also name the size of the first prototype's index, as its author reported it.
SECTIONS: dict[str, Callable[[Records], str]] = {
    "layouts-200": partial(layouts, 200),
    "layouts-5000": partial(layouts, 5_000),
    "lineitem-20": partial(lineitem, 20_000_000, "11 MB"),
    "lineitem-600": partial(lineitem, 600_000_000, "300 MB"),
    "indexes": indexes,
    "large-build": large,
    "engines": engines,
    "tables": tables,
    "many-files": many_files,
    "speed": speed,
    "rewrite": rewrite,
    "instructions": instructions,
}
