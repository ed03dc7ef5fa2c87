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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in lines)


def _number(value: float) -> str:
    """Format a number with three digits and thousands separators."""
    return written(value, "")


def _mean(value: float) -> str:
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
        means = {way: _mean(files_read[way]) for way in (MINMAX, BLOOM, SIEVE, OPTIMUM)}
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
        f"({record.source}).\n\n{_table(head, rows)}"
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
            cells = [f"{label.format(name=name)} ({_number(median_rows)} rows)"]
            for way in (SCAN, MINMAX, BLOOM, SIEVE):
                results = [query["ways"][way] for query in queries if way in query["ways"]]
                files, seconds = (
                    statistics.median(result[key] for result in results) if results else 0
                    for key in ("files", "seconds")
                )
                cells.append(f"{_number(files)}, {seconds:.2g} s" if results else "-")
            lines.append([*cells, _number(statistics.median(query["least_files"] for query in queries))])
    counts = [
        sum((query["column"], query["kind"]) == ("l_orderkey", kind) for query in case["asked"]) for kind in kinds
    ]
    built = case["built"]
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        times = [f"{built[way][column]['seconds']:.3g} s" for way in (MINMAX, BLOOM, SIEVE)]
        sort = f"(Spark's sort: {built[SORT][column]['seconds']:.3g} s)" if SORT in built else ""
        lines.append([f"build, {name}", "", *times, sort])
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        sizes = [_bytes(built[way][column]["bytes"]) for way in (MINMAX, BLOOM, SIEVE)]
        lines.append([f"size that queries read, {name}", "", *sizes, ""])
    millions = f"{rows / 1e6:g}"
    pictures = "\n".join(
        f"![{title[0].upper()}{title[1:]}, {millions} million rows. The table below has the same numbers.]"
        f"(pictures/lineitem-{millions}-{name}.png)"
        for name, title in LINEITEM_CHARTS.items()
    )
    upkeep = [_bytes(built[SIEVE][column]["bytes_for_maintenance"]) for column in ("l_orderkey", "l_partkey")]
    size = _bytes(built[SIEVE]["l_orderkey"]["bytes"])
    return (
        f"{millions} million rows in {case['files']:,} files ({_bytes(case['bytes'])}), Spark with "
        f"{case['memory'].replace('g', ' GB')}. Each cell shows the files read and the seconds taken, planning "
        f"included: medians of {counts[0]} queries for each kind of key, and of {counts[-1]} for each width of "
        f"interval ({record.source}).\n\n{pictures}\n\n"
        f"{_table(['', SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM], lines)}\n\n"
        f"Queries read {size} of the order key's index; the first prototype's index of this key took {first_index}. "
        f"Deletes and compaction also need the keys and counts, which take another {upkeep[0]} on disk ({upkeep[1]} "
        "for the part key). Queries do not read them."
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
    return (
        f"{case['rows'] / 1e6:g} million rows in {case['files']:,} files ({_bytes(case['table_bytes'])}), Spark with "
        f"{case['memory'].replace('g', ' GB')}. The build took {build['seconds']:,.0f} s and at most "
        f"{_bytes(build['peak_bytes_of_all_processes'])} in all processes together "
        f"({_bytes(build['peak_bytes_of_java'])} in Java). Lookups read {build['bits_per_row']:.1f} bits per row "
        f"({_bytes(build['lookup_bytes'])}), and the keys for maintenance take {_bytes(build['keys_bytes'])}.{sort} "
        f"A query for one key keeps {lookup['files_kept']:.2f} files on average, and its plan takes "
        f"{lookup['plan_ms']:.1f} ms ({record.source})."
    )


def _bytes(value: float) -> str:
    return written(value, "bytes")


def indexes(records: Records) -> str:
    """Return the comparison of Hudi's own indexes with the Sieve index."""
    record = records.get("indexes-spark")
    if record is None:
        return "There is no record yet. Run `benches/spark/indexes.py --rows 20000000 --save` to create it."
    about, *cases = record.data["cases"]
    lines = []
    for name, contender in about["contenders"].items():
        cells = [_strong(name, name == "parsieve")]
        for case in cases:
            seconds = case["seconds"].get(name)
            cells.append(f"{case['files'][name]}, {statistics.median(seconds):.2g} s" if seconds else "-")
        # A step that failed has zero seconds.
        times = [contender[f"{step}_seconds"] for step in ("build", "update")]
        cells += [f"{seconds:.3g} s" if seconds else "-" for seconds in times]
        lines.append([*cells, _bytes(contender["index_bytes"]["built"])])
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
        f"{_table(['', *queries, 'build', 'upsert and update', 'index'], lines)}{note}"
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
    return f"Medians, planning included ({record.source}).\n\n{_table(head, lines)}"


def _case(cases: list[dict[str, Any]], place: str, like: dict[str, Any]) -> dict[str, Any] | None:
    key = (place, like["question"], like["engine"])
    return next((case for case in cases if (case["place"], case["question"], case["engine"]) == key), None)


def _pair(values: Mapping[str, float], unit: Unit) -> str:
    """Format the values alone and with parsieve, with the better one in bold."""
    alone, ours = (written(values[way], unit) for way in (ALONE, WITH))
    return f"{alone} → **{ours}**" if values[WITH] < values[ALONE] else f"**{alone}** → {ours}"


def tables(records: Records) -> str:
    """Return a point and a range query through three engines, and plans over many files."""
    record = records["tables-python"]
    cases = record.data["cases"]
    lake = next(case for case in cases if case.get("case") == "late events")
    indexes = lake["index"].values()
    index_sizes = f"lookups read {sum(index['bits_per_row'] for index in indexes):.1f} bits per row of the indexes"
    # Records of version 0.1 do not have the size on disk.
    has_size = all("stored_bytes" in index for index in indexes)
    stored = sum(index["stored_bytes"] for index in indexes) if has_size else None
    index_sizes += ", which take more on disk" if stored is None else f", which take {_bytes(stored)} on disk"
    lines = []
    for question, name in (("point", "one user"), ("range", "one hour")):
        queries = [case for case in cases if case.get("question") == question]
        files = {way: queries[0]["files"][way] for way in ("alone", "parsieve")}
        least, most = (pick(case["bytes_read"]["alone"] for case in queries) for pick in (min, max))
        ours = max(case["bytes_read"]["parsieve"] for case in queries)
        times = {case["engine"]: case["milliseconds"] for case in queries}
        pairs = [
            f"{_number(round(times[engine]['alone']))} → **{_number(round(times[engine]['parsieve']))}** ms"
            for engine in ("pyarrow", "polars", "duckdb")
        ]
        read = f"{_bytes(least)} to {_bytes(most)} → {_bytes(ours)}"
        lines.append([name, f"{files['alone']} → {files['parsieve']}", *pairs, read])
    many = {case["format"]: case for case in cases if case.get("case") == "many files"}
    warm = {name: case["milliseconds"]["warm"] for name, case in many.items()}
    memory = [case["mib_held"] for case in many.values()]
    return (
        f"The table has {lake['rows'] / 1e6:g} million events in {queries[0]['files']['alone']} files "
        f"({_bytes(lake['bytes'])}). Events arrive late, and the files are never sorted by user. Indexing both columns "
        f"took {lake['build_seconds']:.0f} s; {index_sizes} ([sizes](docs/faq.md)). The times compare each engine "
        f"alone with the same engine on the files that a plan keeps, planning included, with the files in memory "
        f"({record.source}).\n\n"
        f"{_table(['query', 'files', 'pyarrow', 'Polars', 'DuckDB', 'bytes read'], lines)}\n\n"
        f"Planning a query for one key over {many['plain']['files']:,} unchanged files takes {warm['delta']:.0f} ms "
        f"(Delta), {warm['iceberg']:.0f} ms (Iceberg) or {warm['plain']:.0f} ms (a plain folder, where listing the "
        f"names and one `stat` per file alone take {many['plain']['milliseconds']['names and stat alone']:.0f} ms). "
        f"The first plan makes {many['delta']['requests']['cold']} requests in addition to the listing or the log. "
        f"Cached state takes {min(memory):.0f} to {max(memory):.0f} MiB of memory."
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
            cells = [_strong(f"{times[contender]:.1f}", times[contender] == best) for contender in contenders.values()]
            lines.append([f"{operation}, {name}", *cells])
    insert, check = (_timings(python, operation, 16_777_216) for operation in ("insert", "check"))
    libraries = {
        "parsieve, from a pyarrow array": "parsieve avx512",
        "parsieve, `threads=2`": "parsieve avx512, 2 threads",
        "abloom, including the list it needs": "abloom, with the list",
        "rbloom, including the list it needs": "rbloom, with the list",
    }
    python_lines = [[name, f"{insert[key]:.1f}", f"{check[key]:.1f}"] for name, key in libraries.items()]
    python_lines.append(["pyarrow's writer: extra time for a filter", f"{insert[COST]:.1f}", ""])
    return (
        f"{_table(['int64, Rust', *peers, *ours], lines)}\n\n"
        f"{_table(['Python, 10 M int64, 16 MiB filter', 'insert', 'check'], python_lines)}\n\n"
        "Nanoseconds per value, in one thread unless noted, best of interleaved runs "
        f"({rust.source}, `{python.name}`; run `make bench` to repeat)."
    )


def _timings(record: Record, operation: str, num_bytes: int) -> dict[str, float]:
    key = (operation, "int64", num_bytes)
    cases = record.data["cases"]
    [case] = [case for case in cases if (case["operation"], case["values"], case["num_bytes"]) == key]
    return {timing["name"]: timing["min"] for timing in case["timings"]}


def _strong(text: str, best: bool) -> str:
    return f"**{text}**" if best else text


def rewrite(records: Records) -> str:
    """Return the time to add filters to a large file, and the time to check one key in one file."""
    record, reflink, probe = records["rewrite-python"], records["rewrite-xfs-python"], records["probe-python"]
    contenders = [
        ("parsieve, `in_place=True`", record, "parsieve in place"),
        ("parsieve, file replaced (copied, verified, synced)", record, "parsieve"),
        ("parsieve, file replaced on XFS or Btrfs, which share blocks", reflink, "parsieve"),
        ("pyarrow rewrites the file", record, "pyarrow"),
        ("DuckDB rewrites the file", record, "duckdb"),
    ]
    lines = []
    for name, source, key in contenders:
        medians = {case["column"]: case["medians"][key] for case in source.data["cases"]}
        peak = max(case["peak_mib"] for case in medians.values())
        times = [_strong(f"{medians[column]['wall']:.1f} s", key == "parsieve in place") for column in ("id", "text")]
        lines.append([name, *times, f"{peak:,.0f} MiB"])
    case = next(case for case in probe.data["cases"] if case["case"] == "one key in one local file")
    micros, ratios = case["microseconds"], case["times_faster_than_duckdb"]
    open_file, loaded_filter = "parsieve, file held open", "parsieve, filter held"
    return (
        f"Adding a Bloom filter to a file of 1 GiB ({record.source}, `{reflink.name}`).\n\n"
        f"{_table(['', 'int64', 'strings of 96 bytes', 'memory'], lines)}\n\n"
        f"Checking one key in one file takes {micros['duckdb'] / 1e3:.2f} ms with DuckDB's `parquet_bloom_probe`. "
        f"parsieve takes {micros[open_file] / 1e3:.2f} ms if the file is already open ({ratios[open_file]:.0f} times "
        f"faster), and {micros[loaded_filter] / 1e3:.2f} ms if the filter is already in memory "
        f"({ratios[loaded_filter]:.0f} times faster; `benches/results/{probe.name}`)."
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
    "speed": speed,
    "rewrite": rewrite,
}
