"""Records of benches as tables of Markdown: one function for each section of a page."""

from __future__ import annotations

import statistics
import textwrap
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
        """Where the numbers come from: when, on what, and the file."""
        machine = self.data["machine"]
        cores = {1: "one core", 2: "two cores"}.get(machine["cores"], f"{machine['cores']} cores")
        cpu = machine["cpu"].replace("(R)", "").replace(" Processor", "").strip()
        return (
            f"{self.data['date']}, {cores} of an {cpu}, commit {self.data['commit'][:7]}; `benches/results/{self.name}`"
        )


Records = Mapping[str, Record]
SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM = "full scan", "min/max", "Bloom per file", "Sieve", "optimum"
SORT = "Spark's sort"
# The four charts of the first experiment, by the names of their pictures; the table below them has their numbers.
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


def _wrapped(text: str) -> str:
    """Wrap a paragraph as pages are wrapped."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _number(value: float) -> str:
    """Three digits, thousands told apart."""
    return written(value, "")


def _mean(value: float) -> str:
    """Files of a mean: whole ones from a hundred on, tenths below."""
    return f"{value:,.0f}" if value >= 99.95 or round(value, 1) == int(value) else f"{value:.1f}"


def layouts(files: int, records: Records) -> str:
    """Files read of each layout, by each way to plan."""
    found = records["layouts-python"]
    cases = [case for case in found.data["cases"] if case["files"] == files]

    def reads(case: dict[str, Any], kind: str) -> str:
        of = case["files_read"].get(kind)
        if of is None:
            return "-"
        told = {way: _mean(of[way]) for way in (MINMAX, BLOOM, SIEVE, OPTIMUM)}
        return f"{told[MINMAX]} / {told[BLOOM]} / **{told[SIEVE]}** / {told[OPTIMUM]}"

    rows = [
        [
            case["about"],
            *(reads(case, kind) for kind in ("present", "absent", "narrow", "wide")),
            " / ".join(f"{case['lookup_bits_per_row'][way]:.1f}" for way in (BLOOM, SIEVE)),
        ]
        for case in cases
    ]
    head = ["layout", "one key", "no such key", "1/10,000 of the rows", "1/100", "bits a row: Bloom / Sieve"]
    return (
        f"Files read of {files:,}, with {cases[0]['rows'] // files:,} rows each, in the mean of "
        f"{cases[0]['questions']} questions: by min/max / a Bloom filter per file / **the Sieve** / at best "
        f"({found.source}).\n\n{_table(head, rows)}"
    )


def lineitem(rows: int, first_index: str, records: Records) -> str:
    """Lineitem on Hudi: the questions, and what the indexes take."""
    found = records.get(f"thesis-{rows}-spark")
    if found is None:
        command = f"benches/spark/thesis.py FOLDER --rows {rows} --rows-of-a-commit 10000000 --lean --save"
        return f"There is no record of {rows / 1e6:g} million rows yet: `{command}` makes it, and may be interrupted."
    case = found.data["cases"][0]
    kinds = {
        "point": "one {name}",
        "absent key": "one {name} that does not exist",
        "1e-06": "1/1,000,000 of the {name}s",
        "1e-05": "1/100,000",
        "0.0001": "1/10,000",
        "0.001": "1/1,000",
        "0.01": "1/100",
    }
    lines = []
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        for kind, about in kinds.items():
            asked = [one for one in case["asked"] if (one["column"], one["kind"]) == (column, kind)]
            # An interval of one key is a point.
            whole = kind in ("point", "absent key")
            if not asked or (not whole and all(one["low"] == one["high"] for one in asked)):
                continue
            middle = statistics.median(one["rows"] for one in asked)
            cells = [f"{about.format(name=name)} ({_number(middle)} rows)"]
            for way in (SCAN, MINMAX, BLOOM, SIEVE):
                of = [one["ways"][way] for one in asked if way in one["ways"]]
                files, seconds = (
                    statistics.median(one[what] for one in of) if of else 0 for what in ("files", "seconds")
                )
                cells.append(f"{_number(files)}, {seconds:.2g} s" if of else "-")
            lines.append([*cells, _number(statistics.median(one["least_files"] for one in asked))])
    turns = [sum((one["column"], one["kind"]) == ("l_orderkey", kind) for one in case["asked"]) for kind in kinds]
    built = case["built"]
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        spent = [f"{built[way][column]['seconds']:.3g} s" for way in (MINMAX, BLOOM, SIEVE)]
        sort = f"(Spark's sort: {built[SORT][column]['seconds']:.3g} s)" if SORT in built else ""
        lines.append([f"build, {name}", "", *spent, sort])
    for column, name in (("l_orderkey", "order key"), ("l_partkey", "part key")):
        sizes = [_bytes(built[way][column]["bytes"]) for way in (MINMAX, BLOOM, SIEVE)]
        lines.append([f"size that questions read, {name}", "", *sizes, ""])
    millions = f"{rows / 1e6:g}"
    pictures = "\n".join(
        f"![{title[0].upper()}{title[1:]}, {millions} million rows: the table has the numbers.]"
        f"(pictures/lineitem-{millions}-{name}.png)"
        for name, title in LINEITEM_CHARTS.items()
    )
    upkeep = [_bytes(built[SIEVE][column]["bytes_for_maintenance"]) for column in ("l_orderkey", "l_partkey")]
    size = _bytes(built[SIEVE]["l_orderkey"]["bytes"])
    return (
        f"Files read and seconds taken, planning included: medians of {turns[0]} questions for each kind of key and "
        f"{turns[-1]} for each width of interval, over "
        f"{rows / 1e6:g} million rows in {case['files']:,} files of {_bytes(case['bytes'])} in all, Spark with "
        f"{case['memory'].replace('g', ' GB')} ({found.source}).\n\n{pictures}\n\n"
        f"{_table(['', SCAN, MINMAX, BLOOM, SIEVE, OPTIMUM], lines)}\n\n"
        f"What questions read of the order key's index takes {size}; the experiment's first index of this key took "
        f"{first_index}. Keys and counts, which deletes and compaction need and no question reads, take {upkeep[0]} "
        f"more beside it ({upkeep[1]} for the part key)."
    )


def large(records: Records) -> str:
    """An index that is larger than the memory of the Spark that built it."""
    found = records.get("large-build-spark")
    if found is None:
        return "There is no record of it yet: `benches/spark/large.py FOLDER --save` makes it, and may be interrupted."
    case = found.data["cases"][0]
    build, asked = case["build"], case["look_up"]
    sort = f" Spark's own sort of the column takes {case['sort']['seconds']:,.0f} s." if "sort" in case else ""
    return (
        f"{case['rows'] / 1e6:g} million rows in {case['files']:,} files ({_bytes(case['table_bytes'])}), Spark with "
        f"{case['memory'].replace('g', ' GB')}: {build['seconds']:,.0f} s, and at most "
        f"{_bytes(build['peak_bytes_of_all_processes'])} in all processes ({_bytes(build['peak_bytes_of_java'])} of "
        f"them Java's); {build['bits_per_row']:.1f} bits a row ({_bytes(build['lookup_bytes'])}), and "
        f"{_bytes(build['keys_bytes'])} of keys for maintenance.{sort} A key keeps {asked['files_kept']:.2f} files in "
        f"the mean, planned in {asked['plan_ms']:.1f} ms ({found.source})."
    )


def _bytes(value: float) -> str:
    return written(value, "bytes")


def indexes(records: Records) -> str:
    """Hudi's own indexes beside the Sieve."""
    found = records.get("indexes-spark")
    if found is None:
        return "There is no record of it yet: `benches/spark/indexes.py --rows 20000000 --save` makes it."
    about, *cases = found.data["cases"]
    lines = []
    for name, of in about["contenders"].items():
        cells = [_strong(name, name == "parsieve")]
        for case in cases:
            taken = case["seconds"].get(name)
            cells.append(f"{case['files'][name]}, {statistics.median(taken):.2g} s" if taken else "-")
        # Whoever failed took no time at all.
        spent = [of[f"{what}_seconds"] for what in ("build", "update")]
        cells += [f"{seconds:.3g} s" if seconds else "-" for seconds in spent]
        lines.append([*cells, _bytes(of["index_bytes"]["built"])])
    asked = [f"{case['question']}, {case['moment']}" for case in cases]
    # What was said before Java's stack.
    failed = [f"{name}: {of['failed'].split(' at ')[0]}" for name, of in about["contenders"].items() if of["failed"]]
    refused = "\n\nWhat failed in Hudi: `" + "`; `".join(failed) + "`." if failed else ""
    return (
        f"Files read and seconds taken over {about['rows'] / 1e6:g} million rows in {about['files']:,} files, "
        f"medians ({found.source}).\n\n{_table(['', *asked, 'build', 'upsert and update', 'index'], lines)}{refused}"
    )


def engines(records: Records) -> str:
    """The lake of late events through four engines, in three places."""
    found = records.get("engines-spark")
    if found is None:
        return "There is no record of it yet: `benches/spark/engines.py --save` makes it."
    cases = found.data["cases"]
    places = {"warm": "warm", "cold": "cold", "far": "20 ms away"}
    lines = []
    for one in (case for case in cases if case["place"] == "warm"):
        cells = [f"{one['question']}, {one['engine']}"]
        for place in places:
            of = _case(cases, place, one)
            cells.append(_pair(of["seconds"], "seconds") if of else "-")
        far = _case(cases, "far", one)
        units: dict[str, Unit] = {"bytes": "bytes", "requests": ""}
        for what, unit in units.items():
            cells.append(_pair({way: far["counted"][way][what] for way in (ALONE, WITH)}, unit) if far else "-")
        lines.append(cells)
    head = ["question, engine", *(f"{about}: alone → with" for about in places.values()), "bytes", "requests"]
    return f"Medians, planning included ({found.source}).\n\n{_table(head, lines)}"


def _case(cases: list[dict[str, Any]], place: str, like: dict[str, Any]) -> dict[str, Any] | None:
    wanted = (place, like["question"], like["engine"])
    return next((one for one in cases if (one["place"], one["question"], one["engine"]) == wanted), None)


def _pair(of: Mapping[str, float], unit: Unit) -> str:
    """Alone and with parsieve; the better one stands out."""
    one, other = (written(of[way], unit) for way in (ALONE, WITH))
    return f"{one} → **{other}**" if of[WITH] < of[ALONE] else f"**{one}** → {other}"


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
            f"{_number(round(times[engine]['alone']))} → **{_number(round(times[engine]['parsieve']))}** ms"
            for engine in ("pyarrow", "polars", "duckdb")
        ]
        least, most = (pick(case["bytes_read"]["alone"] for case in by_engine.values()) for pick in (min, max))
        ours = max(case["bytes_read"]["parsieve"] for case in by_engine.values())
        lines.append(
            [
                name,
                f"{files['alone']} → {files['parsieve']}",
                *pairs,
                f"{_bytes(least)} to {_bytes(most)} → {_bytes(ours)}",
            ]
        )
    caption = _wrapped(
        f"Each engine alone → on the files of a plan, planning included: {lake['rows'] / 1e6:g} million events in "
        f"{files['alone']} files ({_bytes(lake['bytes'])}, in memory). Some events arrived late, and user ids are in "
        f"no order. Building both indexes takes {lake['build_seconds']:.0f} s ({record.source})."
    )
    return f"{_table(['query', 'files read', 'pyarrow', 'Polars', 'DuckDB', 'bytes read'], lines)}\n\n{caption}"


def many_files(records: Records) -> str:
    """Return the time that a plan over many files takes."""
    record = records["tables-python"]
    cases = record.data["cases"]
    index = next(case for case in cases if case.get("case") == "late events")["index"].values()
    many = {case["format"]: case for case in cases if case.get("case") == "many files"}
    warm = {name: case["milliseconds"]["warm"] for name, case in many.items()}
    listing = many["plain"]["milliseconds"]["names and stat alone"]
    memory = [case["mib_held"] for case in many.values()]
    return _wrapped(
        f"Planning a point query over {many['plain']['files']:,} files that did not change takes {warm['delta']:.0f} "
        f"ms for Delta, {warm['iceberg']:.0f} ms for Iceberg, and {warm['plain']:.0f} ms for a plain folder, where "
        f"listing the names and one `stat` per file take {listing:.0f} ms. The first plan makes "
        f"{many['delta']['requests']['cold']} requests in addition to reading the listing or log. An open table uses "
        f"{min(memory):.0f} to {max(memory):.0f} MiB of memory. In the table of late events, the part of both indexes "
        f"that lookups read has {sum(column['bits_per_row'] for column in index):.1f} bits per row ({record.source})."
    )


def speed(records: Records) -> str:
    """Return the speed of filters in memory, compared with other libraries."""
    rust, python = records["bloom-rust"], records["bloom-python"]
    peers = {"`parquet` crate": "parquet", "sbbf-rs-safe": "sbbf-rs-safe"}
    ours = {"parsieve AVX2": "parsieve avx2", "parsieve AVX-512": "parsieve avx512"}
    lines = []
    for size, name in ((262_144, "256 KiB filter"), (134_217_728, "128 MiB filter")):
        for operation in ("insert", "check"):
            times = _timings(rust, operation, size)
            best = min(times[one] for one in (peers | ours).values())
            told = [_strong(f"{times[one]:.1f}", times[one] == best) for one in (peers | ours).values()]
            lines.append([f"{operation}, {name}", *told])
    insert, check = (_timings(python, operation, 16_777_216) for operation in ("insert", "check"))
    contenders = {
        "parsieve, from a pyarrow array": "parsieve avx512",
        "parsieve, `threads=2`": "parsieve avx512, 2 threads",
        "abloom, including the list that it needs": "abloom, with the list",
        "rbloom, including the list that it needs": "rbloom, with the list",
    }
    others = [[name, f"{insert[one]:.1f}", f"{check[one]:.1f}"] for name, one in contenders.items()]
    others.append(["extra time of pyarrow's writer for a filter", f"{insert[COST]:.1f}", ""])
    return (
        f"{_table(['int64, Rust', *peers, *ours], lines)}\n\n"
        f"{_table(['Python, 10 M int64, 16 MiB filter', 'insert', 'check'], others)}\n\n"
        + _wrapped(
            "Nanoseconds per value, one thread unless noted, the best of several runs in which all contenders of a "
            f"table took turns ({rust.source}, `{python.name}`; `make bench` repeats it)."
        )
    )


def _timings(found: Record, operation: str, num_bytes: int) -> dict[str, float]:
    wanted = (operation, "int64", num_bytes)
    cases = found.data["cases"]
    [case] = [one for one in cases if (one["operation"], one["values"], one["num_bytes"]) == wanted]
    return {one["name"]: one["min"] for one in case["timings"]}


def _strong(text: str, best: bool) -> str:
    return f"**{text}**" if best else text


def rewrite(records: Records) -> str:
    """Return the time to add a filter to a large file, and to look up one key in one file."""
    found, shared, probe = records["rewrite-python"], records["rewrite-xfs-python"], records["probe-python"]
    contenders = [
        ("parsieve, `in_place=True`", found, "parsieve in place"),
        ("parsieve, replacing the file (copy, compare, sync)", found, "parsieve"),
        ("parsieve, replacing the file on a filesystem that shares blocks (XFS, Btrfs)", shared, "parsieve"),
        ("pyarrow, rewriting the file", found, "pyarrow"),
        ("DuckDB, rewriting the file", found, "duckdb"),
    ]
    lines = []
    for name, of, one in contenders:
        medians = {case["column"]: case["medians"][one] for case in of.data["cases"]}
        peak = max(case["peak_mib"] for case in medians.values())
        times = [_strong(f"{medians[column]['wall']:.1f} s", one == "parsieve in place") for column in ("id", "text")]
        lines.append([name, *times, f"{peak:,.0f} MiB"])
    of = next(case for case in probe.data["cases"] if case["case"] == "one key in one local file")
    micros, ratios = of["microseconds"], of["times_faster_than_duckdb"]
    open_file, open_filter = "parsieve, file held open", "parsieve, filter held"
    lookup = _wrapped(
        f"Looking up one key in one local file takes DuckDB's `parquet_bloom_probe` {micros['duckdb'] / 1e3:.2f} ms. "
        f"It takes parsieve {micros[open_file] / 1e3:.2f} ms with an open file ({ratios[open_file]:.0f} times faster), "
        f"and {micros[open_filter] / 1e3:.2f} ms with a filter in memory ({ratios[open_filter]:.0f} times; "
        f"`benches/results/{probe.name}`)."
    )
    caption = _wrapped(f"Time to add a Bloom filter to a file of 1 GiB ({found.source}, `{shared.name}`).")
    return f"{_table(['', 'int64', 'text of 96 bytes', 'memory'], lines)}\n\n{caption}\n\n{lookup}"


# Of lineitem also what the first experiment's index took, by its own account.
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
}
