"""The tables about the size of Sieve indexes show what a record says."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs/scripts"))
    return importlib.import_module("sieve_tables")


def record(tables: ModuleType, cases: list[dict[str, Any]]) -> Any:
    machine = {"cpu": "Some CPU", "cores": 2}
    return tables.Record("r.json", {"date": "d", "commit": "c" * 40, "machine": machine, "cases": cases})


def way(stored: int, absent: float | None) -> dict[str, Any]:
    units = {kind: {"kept": 2.0, "optimum": 2.0} for kind in ("present", "narrow", "wide")}
    if absent is not None:
        units["absent"] = {"kept": absent, "optimum": 0.0}
    return {"stored_bytes": stored, "lookup_bytes": stored - 100, "units": units}


def size_case(units: int, fingerprints: bool) -> dict[str, Any]:
    return {
        "about": "some layout",
        "files": units // 4,
        "units": units,
        "rows": 8_000,
        "ways": {
            tables_way: way(stored, absent)
            for tables_way, stored, absent in (
                ("with fingerprints", 19_000, 0.0123),
                ("without fingerprints", 12_000, 2.0),
                ("with Bloom filters", 30_000, None),
            )
        },
        "fingerprints": fingerprints,
        "model_bits": {"sets": 80_000, "fingerprints": 48_000},
        "missed": [] if fingerprints else ["a bound"],
    }


def test_the_sections_without_a_record_say_so(tables: ModuleType) -> None:
    assert all("no record" in section({}) for section in tables.SECTIONS.values())


def test_a_size_is_shown_next_to_its_model(tables: ModuleType) -> None:
    records = {"sieve-size-python": record(tables, [size_case(64, True), size_case(4_096, False)])}
    section = tables.SECTIONS["sieve-size-64"](records)
    assert "8,000 rows in 16 files of 4 row groups" in section
    assert "| some layout | 19.0 | 18.9 | 16.0 | yes | 2 / 2 | 0.012 | 2 / 2 | 2 / 2 |" in section
    assert "Missed bounds" not in section
    # Without fingerprints, the model has none either.
    section = tables.SECTIONS["sieve-size-4096"](records)
    assert "| some layout | 19.0 | 18.9 | 10.0 | no |" in section
    assert "Missed bounds: 1" in section


def test_fingerprints_are_compared_with_bloom_filters(tables: ModuleType) -> None:
    records = {"sieve-size-python": record(tables, [size_case(64, True), size_case(4_096, True)])}
    section = tables.SECTIONS["sieve-bloom"](records)
    cells = "12.0 / 19.0 / 30.0 | 2 / 0.012 / -"
    assert f"| some layout | {cells} | {cells} |" in section


def test_the_lake_is_compared_with_lance(tables: ModuleType) -> None:
    ways = {name: way(4_000, 0.01) for name in (tables.GROUPS, tables.FILES)}
    built = {
        name: {"seconds": seconds, "all_seconds": [seconds] * 3, "bytes": num_bytes}
        for name, seconds, num_bytes in (
            (tables.GROUPS, 12.0, 84e6),
            (tables.FILES, 9.0, 55e6),
            (tables.BTREE, 20.0, 8e8),
        )
    }
    about = {"rows": 20_000_000, "files": 100, "row_groups_of_a_file": 4, "bytes": 8e8, "built": built}
    column: dict[str, Any] = {"column": "request", "about": "texts", "ways": ways}
    records = {"sieve-lake-python": record(tables, [about, column])}
    section = tables.SECTIONS["sieve-lake"](records)
    assert "| Sieve, row groups, fingerprints | **84 MB** | 12.0 s (0.60) | 0.00 | 0.010 |" in section
    assert "| Lance's BTREE | 800 MB | 20.0 s (1.00) | - | - |" in section
    assert "the Sieve keeps exactly the optimum" in section
    column["ways"][tables.GROUPS]["units"]["wide"]["kept"] = 3.0
    assert "at most 1.500 times the optimum" in tables.SECTIONS["sieve-lake"](records)
    short = tables.SECTIONS["sieve-lake-short"](records)
    assert "take **84 MB** with row groups as units, and 55 MB with files as units" in short
