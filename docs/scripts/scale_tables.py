"""Turns the record of tables with many files into Markdown tables: first plans, and the life of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from measured_tables import Records, as_table

NAMES = {"delta-checkpoint": "Delta, checkpoint", "delta-commits": "Delta, JSON commits"}
NAMES |= {"iceberg": "Iceberg", "folder": "indexed folder"}
RECORD, LIFE = "million-files-python", "index-life-python"


def first_plans(records: Records) -> str:
    """Return how long first plans take in comparison with the least work of another reader."""
    record = records.get(RECORD)
    cases = [] if record is None else [case for case in record.data["cases"] if case["case"] in NAMES]
    if record is None or not cases:
        return "There is no record yet. Run `benches/python/million_files.py --save` to create it."
    heads = ["table", "files", "compared with", "its CPU time", "parsieve's", "times", "wall times", "target"]
    heads += ["bytes per file", "freshness check"]
    lines = []
    for case in cases:
        other = next(name for name in case["least"] if name != "parsieve")
        ours, theirs, times = case["least"]["parsieve"], case["least"][other], case["times"]
        lines.append(
            [
                NAMES[case["case"]],
                f"{case['files']:,}",
                other,
                f"{theirs['work'] * 1e3:,.0f} ms",
                f"{ours['work'] * 1e3:,.0f} ms",
                f"{times['work']:.2f}",
                f"{times['seconds']:.2f}",
                f"{case['target']:g}",
                f"{ours['bytes'] / case['files']:,.0f}",
                f"{case['check'] * 1e3:,.1f} ms",
            ]
        )
    verdict = " ".join(
        f"Targets that {name} time misses: {_misses(cases, kind)}."
        for kind, name in (("work", "CPU"), ("seconds", "wall"))
    )
    machine = record.data["machine"]
    load = f"The machine was busy: its load was {max(machine['load_at_end']):.0f} on {machine['cores']} cores"
    return f"{as_table(heads, lines)}\n\n{verdict} {load} ({record.source})."


def _misses(cases: Sequence[dict[str, Any]], kind: str) -> str:
    misses = [case for case in cases if case["times"][kind] > case["target"]]
    texts = [f"{NAMES[case['case']]}, {case['files']:,} files ({case['times'][kind]:.2f})" for case in misses]
    return "; ".join(texts) or "none"


def life(records: Records) -> str:
    """Return the time and the memory of each step in the life of an index."""
    record = records.get(LIFE)
    if record is None:
        return "There is no record yet. Run `benches/python/index_life.py --save` to create it."
    cases = record.data["cases"]
    heads = ["step", *(f"{case['files']:,} files" for case in cases)]
    lines = [[name, *(_step(case["steps"][name], case["files"]) for case in cases)] for name in cases[0]["steps"]]
    most = max(step["bytes"] for case in cases for step in case["steps"].values())
    verdict = "below" if most <= cases[0]["target"] else "above"
    about = f"CPU time, and the most memory of the process, which is {verdict} the target of 4 GiB ({record.source})."
    return f"{as_table(heads, lines)}\n\n{about}"


def _step(step: dict[str, Any], files: int) -> str:
    kept = ""
    if "kept" in step:
        kept = ", keeps all" if step["kept"] == files else f", keeps {step['kept']:,}"
    return f"{step['work']:,.1f} s, {step['bytes'] / 2**20:,.0f} MiB{kept}"


SECTIONS: dict[str, Callable[[Records], str]] = {"first-plans": first_plans, "life-of-an-index": life}
