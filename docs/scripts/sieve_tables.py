"""Turns the records of `benches/index/` into Markdown tables: the size and the precision of Sieve indexes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from measured_tables import Record, Records, as_bytes, as_mean, as_table, strong

FINGERPRINTS, BARE, BLOOMS = "with fingerprints", "without fingerprints", "with Bloom filters"
GROUPS, FILES, BTREE = "row groups, fingerprints", "files, no fingerprints", "Lance's BTREE"
NO_SIZES = "There is no record yet. Run `benches/index/sieve_size.py --save` to create it."
NO_LAKE = "There is no record yet. Run `benches/index/sieve_lake.py --save` to create it."


def _cases(record: Record, units: int) -> list[dict[str, Any]]:
    return [case for case in record.data["cases"] if case["units"] == units]


def _setting(cases: list[dict[str, Any]]) -> str:
    case = cases[0]
    return f"{case['rows']:,} rows in {case['files']:,} files of {case['units'] // case['files']} row groups"


def _bits(num_bytes: float, rows: int) -> str:
    bits = num_bytes * 8 / rows
    return f"{bits:.2f}" if bits < 1 else f"{bits:.1f}"


def _kept(means: dict[str, float] | None, exact: bool = False) -> str:
    """Format the mean number of units kept; `exact` adds the optimum."""
    if means is None:
        return "-"
    kept = f"{means['kept']:.3f}" if 0 < means["kept"] < 0.1 else as_mean(means["kept"])
    return f"{kept} / {as_mean(means['optimum'])}" if exact else kept


def sizes(units: int, records: Records) -> str:
    """Return the size and the precision of the index of each layout."""
    record = records.get("sieve-size-python")
    cases = [] if record is None else _cases(record, units)
    if record is None or not cases:
        return NO_SIZES
    lines = []
    for case in cases:
        way = case["ways"][FINGERPRINTS]
        parts = case["model_bits"]
        model = sum(bits for part, bits in parts.items() if part != "fingerprints" or case["fingerprints"])
        kept = way["units"]
        lines.append(
            [
                case["about"],
                *(
                    _bits(num_bytes, case["rows"])
                    for num_bytes in (way["stored_bytes"], way["lookup_bytes"], model / 8)
                ),
                "yes" if case["fingerprints"] else "no",
                _kept(kept["present"], exact=True),
                _kept(kept.get("absent")),
                *(_kept(kept[kind], exact=True) for kind in ("narrow", "wide")),
            ]
        )
    head = ["layout", "stored", "read", "model", "fingerprints"]
    head += ["one key", "missing key", "1/10,000 of the rows", "1/100"]
    misses = sum(len(case["missed"]) for case in cases)
    missed = f" Missed bounds: {misses}; the record lists them." if misses else ""
    return (
        f"{_setting(cases)}; the units are row groups. *Stored*, *read* and *model* are bits per row: in all files of "
        "the index, read by all queries together, and predicted by the model in `docs/design/sieve-size.md`. The last "
        "four columns are the mean number of row groups that the index keeps / the optimum "
        f"({record.source}).{missed}\n\n{as_table(head, lines)}"
    )


def blooms(records: Records) -> str:
    """Return the comparison of fingerprints with Bloom filters next to the Sieve."""
    record = records.get("sieve-size-python")
    if record is None:
        return NO_SIZES
    lines = []
    by_units = {units: _cases(record, units) for units in sorted({case["units"] for case in record.data["cases"]})}
    for cases in zip(*by_units.values(), strict=True):
        cells = [cases[0]["about"]]
        for case in cases:
            ways = [case["ways"][name] for name in (BARE, FINGERPRINTS, BLOOMS)]
            cells.append(" / ".join(_bits(way["stored_bytes"], case["rows"]) for way in ways))
            cells.append(" / ".join(_kept(way["units"].get("absent")) for way in ways))
        lines.append(cells)
    head = ["layout"]
    for units in by_units:
        head += [f"{units:,} row groups: bits per row", "missing key"]
    return (
        "The Sieve alone without fingerprints / with fingerprints / with Bloom filters: bits per row in all files of "
        "the index, and the mean number of row groups that it keeps for a missing key. For present keys and intervals, "
        f"all three keep the optimum ({record.source}).\n\n{as_table(head, lines)}"
    )


def lake(records: Records) -> str:
    """Return the three-column index of the large lake, compared with Lance's."""
    record = records.get("sieve-lake-python")
    if record is None:
        return NO_LAKE
    about, *columns = record.data["cases"]
    built = about["built"]
    btree = built[BTREE]["seconds"]
    lines = []
    for way, label in (
        (GROUPS, "Sieve, row groups, fingerprints"),
        (FILES, "Sieve, files, no fingerprints"),
        (BTREE, "Lance's BTREE"),
    ):
        ours = way != BTREE
        bits = [_bits(column["ways"][way]["stored_bytes"], about["rows"]) if ours else "-" for column in columns]
        seconds = built[way]["seconds"]
        lines.append(
            [
                label,
                strong(as_bytes(built[way]["bytes"]), ours),
                f"{seconds:.1f} s ({seconds / btree:.2f})",
                *bits,
                ", ".join(_kept(column["ways"][way]["units"].get("absent")) for column in columns) if ours else "-",
            ]
        )
    names = [f"`{column['column']}` ({column['about']})" for column in columns]
    head = ["index of three columns", "size", "build (/ the BTREE's)", *(f"bits per row, {name}" for name in names)]
    head.append("units kept for a missing key")
    return (
        f"{about['rows'] / 1e6:g} million rows in {about['files']} files of {about['row_groups_of_a_file']} row groups "
        f"({as_bytes(about['bytes'])}). Sizes include all files of an index. Build times are medians of "
        f"{len(built[BTREE]['all_seconds'])} builds of all three columns; the contenders took turns. For existing keys "
        f"and intervals, the Sieve keeps {_precision(columns)} ({record.source}).\n\n{as_table(head, lines)}"
    )


def lake_short(records: Records) -> str:
    """Return one sentence about the three-column index of the large lake."""
    record = records.get("sieve-lake-python")
    if record is None:
        return NO_LAKE
    about = record.data["cases"][0]
    built = about["built"]
    ours, whole_files, btree = (built[way] for way in (GROUPS, FILES, BTREE))
    return (
        f"Indexes of three columns of {about['rows'] / 1e6:g} million rows ({as_bytes(about['bytes'])}) take "
        f"**{as_bytes(ours['bytes'])}** with row groups as units, and {as_bytes(whole_files['bytes'])} with files as "
        f"units and no fingerprints. Lance's BTREE indexes of the same columns take {as_bytes(btree['bytes'])}. The "
        f"builds take {ours['seconds']:.1f}, {whole_files['seconds']:.1f} and {btree['seconds']:.1f} s, in this order "
        f"({record.source})."
    )


def _precision(columns: list[dict[str, Any]]) -> str:
    ratios = [
        means["kept"] / means["optimum"]
        for column in columns
        for way in column["ways"].values()
        for kind, means in way["units"].items()
        if kind != "absent"
    ]
    worst = max(ratios)
    return "exactly the optimum" if worst <= 1.000_001 else f"at most {worst:.3f} times the optimum"


SECTIONS: dict[str, Callable[[Records], str]] = {
    "sieve-size-64": partial(sizes, 64),
    "sieve-size-4096": partial(sizes, 4_096),
    "sieve-bloom": blooms,
    "sieve-lake": lake,
    "sieve-lake-short": lake_short,
}
