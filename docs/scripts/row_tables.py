"""Turns records of how long rows take into Markdown tables: of parsieve, and of engines alone and through parsieve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measured_tables import Record, Records, as_table

NO_ROWS = "There is no record yet. Run `benches/python/rows.py --save` to create it."
CHECK = "freshness check"
WAYS = ("alone", "with parsieve")


def _milliseconds(parts: dict[str, float] | None) -> str:
    if parts is None:
        return "-"
    total = sum(parts.values())
    digits = 0 if total >= 100 else 1 if total >= 10 else 2
    return f"{total:,.{digits}f}"


def _count(rows: float) -> str:
    return f"{rows:,.0f}" if rows >= 100 or rows == int(rows) else f"{rows:.1f}"


def _cases(record: Record, name: str) -> list[dict[str, Any]]:
    return [case for case in record.data["cases"] if case["case"] == name]


def times(records: Records) -> str:
    """Return the median milliseconds of each contender and kind of question, with a table for each lake."""
    record = records.get("rows-python")
    if record is None:
        return NO_ROWS
    parts = []
    for lake in _cases(record, "lake"):
        cases = [case for case in _cases(record, "rows") if case["layout"] == lake["layout"]]
        names = dict.fromkeys(name for case in cases for name in case["milliseconds"])
        title = f"{lake['layout']}: {lake['rows']:,} rows, {lake['files']} files"
        heads = [title, *(f"{case['kind']} ({_count(case['rows'])})" for case in cases)]
        lines = [[name, *(_milliseconds(case["milliseconds"].get(name)) for case in cases)] for name in names]
        parts.append(as_table(heads, lines))
    about = (
        "Medians in milliseconds; the mean number of rows of an answer is in parentheses. A time of parsieve is that "
    )
    about += f"of the plan, which includes the {CHECK}, and of its rows."
    return "\n\n".join([*parts, f"{about} {record.source}"])


def targets(records: Records) -> str:
    """Return each target, the measurement, and whether it is met."""
    record = records.get("rows-python")
    if record is None:
        return NO_ROWS
    lines = []
    for target in (target for case in _cases(record, "targets") for target in case["targets"]):
        bound = f"{'≥' if target['is_least'] else '≤'} {target['target']:g} {target['unit']}"
        measured = "-" if target["measured"] is None else f"{target['measured']:,.3g}"
        lines.append([target["what"], target["layout"], bound, measured, target["verdict"]])
    return f"{as_table(['target', 'lake', 'bound', 'measured', ''], lines)}\n\n{record.source}"


def integrations(records: Records) -> str:
    """Return the time of each engine alone and on a table of parsieve, for each kind of question."""
    record = records.get("integrations-python")
    if record is None:
        return "There is no record yet. Run `benches/python/integrations.py --save` to create it."
    heads, lines = _pairs(_cases(record, "question"))
    [lake] = _cases(record, "lake")
    about = (
        f"Milliseconds for the engine alone → for the engine with parsieve, including planning: {lake['rows']:,} rows "
        f"in {lake['files']} files; the mean number of rows of an answer is in parentheses. {record.source}"
    )
    return f"{as_table(heads, lines)}\n\n{about}"


def served(records: Records) -> str:
    """Return the time of each engine that plans itself and that `parsieve serve` plans for, and the files planned."""
    record = records.get("served-spark")
    if record is None:
        return "There is no record yet. Run `benches/spark/served.py --save` to create it."
    cases = _cases(record, "question")
    heads, lines = _pairs(cases)
    planned = ["files planned"]
    for case in cases:
        alone, ours = (_count(case["files_planned"][how]) for how in WAYS)
        planned.append(f"{alone} → **{ours}**")
    [lake] = _cases(record, "lake")
    about = (
        f"Milliseconds when the engine plans → when `parsieve serve` plans: an Iceberg table of "
        f"{lake['rows']:,} rows in {lake['files']} files. {record.source}"
    )
    return f"{as_table(heads, [*lines, planned])}\n\n{about}"


def _pairs(cases: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the heads and lines of a table with the two times of each engine and question."""
    names = dict.fromkeys(name.partition(",")[0] for case in cases for name in case["milliseconds"])

    def pair(case: dict[str, Any], engine: str) -> str:
        alone, ours = (_milliseconds(case["milliseconds"][f"{engine}, {how}"]) for how in WAYS)
        return f"{alone} → **{ours}**"

    heads = ["engine", *(f"{case['kind']} ({_count(case['rows'])})" for case in cases)]
    return heads, [[engine, *(pair(case, engine) for case in cases)] for engine in names]


def lists(records: Records) -> str:
    """Return how long rows with a tag take, and the bytes of the indexes."""
    record = records.get("lists-python")
    if record is None:
        return "There is no record yet. Run `benches/python/lists.py --save` to create it."
    [built] = [case for case in record.data["cases"] if case.get("case") == "indexes"]
    cases = [case for case in record.data["cases"] if "question" in case]
    heads = ["", *(f"{case['question']}, ms" for case in cases), "index, MB", "build, s"]
    lines = []
    for name in cases[0]["milliseconds"]:
        index = built.get(name, {})
        size = f"{index['index_bytes'] / 1e6:.1f}" if index else "-"
        seconds = f"{index['build_seconds']:.1f}" if "build_seconds" in index else "-"
        times = [_milliseconds({"rows": case["milliseconds"][name]}) for case in cases]
        lines.append([name, *times, size, seconds])
    about = f"Medians; {built['rows']:,} rows in {built['files']} files of {built['table_bytes'] / 1e6:.0f} MB."
    return f"{as_table(heads, lines)}\n\n{about} {record.source}"


def expressions(records: Records) -> str:
    """Return how long rows of conditions on expressions take, with the files that are read for them."""
    record = records.get("expressions-python")
    if record is None:
        return "There is no record yet. Run `benches/python/expressions.py --save` to create it."
    [built] = [case for case in record.data["cases"] if case.get("case") == "indexes"]
    cases = [case for case in record.data["cases"] if "expression" in case]
    names = list(cases[0]["milliseconds"])
    heads = ["index of", "rows", "files", *(f"{name}, ms" for name in names), "bits per row", "build, s"]
    lines = []
    for case in cases:
        index = built["indexes"][case["expression"]]
        times = [_milliseconds({"rows": case["milliseconds"][name]}) for name in names]
        files = f"{case['files_with_rows']:.1f} / {case['files_kept']:.1f}"
        size, seconds = f"{index['bits_per_row']:.1f}", f"{index['build_seconds']:.1f}"
        lines.append([f"`{case['expression']}`", f"{case['rows']:.0f}", files, *times, size, seconds])
    about = (
        f"Medians; {built['rows']:,} rows in {built['files']} files of {built['table_bytes'] / 1e6:.0f} MB. The column "
        "*files* shows the files with a match / the kept files."
    )
    return f"{as_table(heads, lines)}\n\n{about} {record.source}"


def many_keys(records: Records) -> str:
    """Return how long the rows of many keys take, and the memory of each contender."""
    record = records.get("many-keys-python")
    if record is None:
        return "There is no record yet. Run `benches/python/many_keys.py --save` to create it."
    cases = record.data["cases"]
    names = list(cases[0]["milliseconds"])
    heads = ["keys", "files kept", "plan, ms", *(f"{name}, ms" for name in names), "memory, MiB"]
    lines = []
    for case in cases:
        times = [_milliseconds({"rows": case["milliseconds"][name]}) for name in names]
        memory = " / ".join(str(case["memory_megabytes"][name]) for name in names)
        plan = _milliseconds({"rows": case["plan_milliseconds"]})
        lines.append([f"{case['keys']:,} {case['column']}", str(case["files_kept"]), plan, *times, memory])
    return f"{as_table(heads, lines)}\n\nMedians; 10,000,000 rows in 100 files. {record.source}"


def log_lines(records: Records) -> str:
    """Return how long four questions about log lines take, and the bytes that they read."""
    record = records.get("log-lines-python")
    if record is None:
        return "There is no record yet. Run `benches/python/log_lines.py --save` to create it."
    [built] = [case for case in record.data["cases"] if case.get("case") == "indexes"]
    cases = [case for case in record.data["cases"] if "question" in case]

    def cell(case: dict[str, Any], name: str) -> str:
        milliseconds = _milliseconds({"rows": case["milliseconds"][name]})
        read = case["bytes_read"][name]
        return milliseconds if read is None else f"{milliseconds} ms, {read / 1e6:,.1f} MB"

    names = list(cases[0]["milliseconds"])
    heads = ["question", "rows", "files kept", *names]
    lines = [
        [case["question"], f"{case['rows']:g}", f"{case['files_kept']:g}", *(cell(case, name) for name in names)]
        for case in cases
    ]
    sizes = ", ".join(
        f"`{column}` ({index['kind']}) {index['index_bytes'] / 1e6:,.1f} MB in {index['build_seconds']:.0f} s"
        for column, index in built["indexes"].items()
    )
    about = (
        f"Medians, and the bytes that the process reads for one question; {built['rows']:,} lines in {built['files']} "
        f"files of {built['table_bytes'] / 1e6:,.0f} MB. Indexes: {sizes}."
    )
    return f"{as_table(heads, lines)}\n\n{about} {record.source}"


def first_rows(records: Records) -> str:
    """Return how many files the last ten rows of a user take in each layout, and how long."""
    record = records.get("first-rows-python")
    if record is None:
        return "There is no record yet. Run `benches/python/first_rows.py --save` to create it."
    cases = record.data["cases"]
    names = list(cases[0]["milliseconds"])
    heads = ["layout", "candidates", "optimum", "read", "most unneeded", *(f"{name}, ms" for name in names)]
    lines = [
        [
            case["about"],
            *(f"{case[name]:.1f}" for name in ("candidates", "needed", "read")),
            str(case["most_excess"]),
            *(_milliseconds({"rows": case["milliseconds"][name]}) for name in names),
        ]
        for case in cases
    ]
    about = (
        f"Mean numbers of files of {cases[0]['users']} users, the most unneeded files that one of them read, and "
        f"median milliseconds; {cases[0]['rows']:,} rows in {cases[0]['files']:,} files."
    )
    return f"{as_table(heads, lines)}\n\n{about} {record.source}"


NO_TEXTS = "There is no record yet. Run `benches/python/text.py --save` to create it."


def texts(records: Records) -> str:
    """Return the time, the units read, and the bytes and build time of each text index, with a table for each data."""
    record = records.get("text-python")
    if record is None:
        return NO_TEXTS
    tables = []
    for case in record.data["cases"]:
        title = f"{case['data']}: {case['rows']:,} rows, {case['files']} files, {case['table_bytes'] / 1e6:.0f} MB"
        found = {kind: f"{kind} ({_count(rows)})" if rows else kind for kind, rows in case["rows_found"].items()}
        heads = [title, *(head for name in found.values() for head in (f"{name}, ms", "units read"))]
        lines = []
        for name in case["milliseconds"]["no row"]:
            cells = []
            for kind in found:
                cells += [_milliseconds({"rows": case["milliseconds"][kind][name]}), _units_read(case, kind, name)]
            built = case["built"].get(name)
            sizes = (
                ["-", "-"] if built is None else [f"{built['index_bytes'] / 1e6:.1f}", f"{built['build_seconds']:.1f}"]
            )
            lines.append([name, *cells, *sizes])
        tables.append(as_table([*heads, "index, MB", "build, s"], lines))
    about = "Medians; the mean number of rows of an answer is in parentheses. *Units read* are means; the optimum, the "
    about += (
        "units with a matching row, is in parentheses. The units of ClickHouse are granules of 8,192 rows. The load "
    )
    about += f"of the machine was {record.data['machine']['load_at_end'][0]:.0f}."
    return "\n\n".join([*tables, f"{about} {record.source}"])


def _units_read(case: dict[str, Any], kind: str, name: str) -> str:
    read = case["units_read"][kind].get(name)
    if read is None:
        return "-"
    optimum = case["optimum"][kind].get(name)
    return f"{_count(read)} of {case['units'][name]}" + ("" if optimum is None else f" ({_count(optimum)})")


def text_predictions(records: Records) -> str:
    """Return the predictions of `advise` for each text index, next to the figures of the built index."""
    record = records.get("text-python")
    if record is None:
        return NO_TEXTS
    lines = []
    for case in record.data["cases"]:
        for estimate in case["advice"]["estimates"]:
            bits = " / ".join(f"{value:.1f}" for value in estimate["bits_per_row"])
            shares = [_pair_of_shares(estimate[kind]) for kind in ("a rare text", "a rare word")]
            unit = estimate["unit"].replace("_", " ")
            lines.append([f"{case['data']}, {estimate['kind']}, {unit}s", bits, *shares])
    heads = ["index", "bits per row", "share of the units read for a rare text", "for a rare word"]
    advice = "; ".join(f"{case['data']}: {case['advice']['recommendation']}" for case in record.data["cases"])
    seconds = [case["advice"]["seconds"] for case in record.data["cases"]]
    about = f"The prediction of `advise` / the built index. Recommended without queries: {advice}. "
    about += f"`advise` takes {min(seconds):.0f} to {max(seconds):.0f} s."
    return f"{as_table(heads, lines)}\n\n{about} {record.source}"


def _pair_of_shares(shares: list[float | None]) -> str:
    return " / ".join("-" if share is None else f"{share * 100:.1f} %" for share in shares)


def short_rows(records: Records) -> str:
    """Return how long few rows take, with the contenders that users know."""
    record = records.get("rows-python")
    if record is None:
        return NO_ROWS
    kinds = ("unique id", "one user", "two seconds of late events")
    cases = [case for case in _cases(record, "rows") if case["layout"] == "page indexes" and case["kind"] in kinds]
    names = {
        "to_arrow": "parsieve, plan and rows",
        "DuckDB alone": "DuckDB, no index",
        "version 0.1": "parsieve 0.1",
        "floor: exact rows": "`parquet` crate, rows known, one thread",
        "Lance + BTREE": "Lance + BTREE (its own format)",
    }
    heads = ["milliseconds", *(f"{case['kind']} ({_count(case['rows'])})" for case in cases)]
    lines = [
        [label, *(_milliseconds(case["milliseconds"].get(name)) for case in cases)] for name, label in names.items()
    ]
    return f"{as_table(heads, lines)}\n\nMedians; 20 million rows in 100 files with page indexes. {record.source}"


SECTIONS: dict[str, Callable[[Records], str]] = {
    "rows": times,
    "row-targets": targets,
    "rows-short": short_rows,
    "integrations": integrations,
    "served": served,
    "lists": lists,
    "expressions": expressions,
    "many-keys": many_keys,
    "log-lines": log_lines,
    "first-rows": first_rows,
    "texts": texts,
    "text-predictions": text_predictions,
}
