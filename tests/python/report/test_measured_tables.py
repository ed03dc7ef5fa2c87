"""The numbers in the README and docs/measurements equal the newest records. Compressed PNGs show the same pixels."""

from __future__ import annotations

import importlib
import json
import struct
import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "docs/scripts"))
    return importlib.import_module("measured")


def test_the_pages_show_the_numbers_of_the_newest_records(measured: ModuleType) -> None:
    records = measured.newest()
    for page in measured.PAGES:
        text = page.read_text(encoding="utf-8")
        assert "<!-- measured " in text
        assert measured.filled(text, records) == text, "to update: python docs/scripts/measured.py"


def test_every_section_is_on_a_page_and_has_an_end(measured: ModuleType) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in measured.PAGES)
    named = [mark["name"] for mark in measured.MARKED.finditer(text)]
    # The README repeats some sections of other pages.
    assert set(named) == set(measured.SECTIONS)
    assert text.count("<!-- measured ") == text.count("<!-- end of measured -->") == len(named)


def test_the_newest_record_of_each_kind_is_used(measured: ModuleType, tmp_path: Path) -> None:
    for name in ("layouts-python-2026-01-31", "layouts-python-2026-02-01", "layouts-xfs-python-2026-01-01"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name}))
    newest = measured.newest(tmp_path)
    assert {kind: record.data["name"] for kind, record in newest.items()} == {
        "layouts-python": "layouts-python-2026-02-01",
        "layouts-xfs-python": "layouts-xfs-python-2026-01-01",
    }


def test_a_section_without_a_record_says_so(measured: ModuleType) -> None:
    assert "no record" in measured.SECTIONS["lineitem-600"]({})
    assert "no record" in measured.SECTIONS["engines"]({})
    assert "no record" in measured.SECTIONS["large-build"]({})
    assert "no record" in measured.SECTIONS["indexes"]({})
    assert "no record" in measured.SECTIONS["first-plans"]({})
    assert "no record" in measured.SECTIONS["life-of-an-index"]({})


def test_the_ledger_of_long_runs(measured: ModuleType, tmp_path: Path) -> None:
    fuzz = {"date": "2026-01-31", "commit": "abc", "command": "fuzz avro", "hours": 0.5, "executions": 2_000}
    lines = [fuzz | {"findings": []}, fuzz | {"findings": ["crash-1"]}]
    lines.append({**fuzz, "hours": 1.25, "summaries": ["test result: ok. 3 passed", "1000 passed"], "findings": ["a"]})
    lines.append(lines[-1] | {"command": "make miri"})
    lines[-2]["command"] = "make -j2 test, beside 3 busy loops"
    changed = {"date": "2026-01-31", "commit": "abc", "command": "mutants plan", "hours": 1, "seeds": [7]}
    lines.append(changed | {"mutants": 40, "unnoticed": ["plan.py:1: a  ->  b"]})
    reached = {"src/thrift/reader.rs": [90, 100], "src/thrift/writer.rs": [10, 50], "src/bloom/builder.rs": [0, 9]}
    lines.append({"lines_reached": reached})
    (tmp_path / "long-runs.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    records = measured.newest(tmp_path)
    assert "| `fuzz avro` | 1.00 | 4,000 | 1 |" in measured.SECTIONS["random-programs"](records)
    assert "| 2026-01-31 | abc | 1.2 | 1,003 | `a` |" in measured.SECTIONS["tests-under-load"](records)
    assert "| `make miri` | 2026-01-31 | abc | 75 | 1,003 | `a` |" in measured.SECTIONS["other-tests"](records)
    assert "| `plan` | 2026-01-31 | abc | 7 | 40 | 39 (97.5%) |" in measured.SECTIONS["mutants"](records)
    coverage = measured.SECTIONS["fuzz-coverage"](records)
    assert "| `src/thrift` | 150 | 66.7% |\n| all | 150 | 66.7% |" in coverage
    assert coverage.endswith("The number of missed lines is in parentheses: `thrift/writer.rs` (40).")
    for section in ("random-programs", "fuzz-coverage", "tests-under-load", "other-tests", "mutants"):
        assert "no record" in measured.SECTIONS[section]({})


def test_the_section_of_indexes_compares_hudi_and_parsieve(measured: ModuleType) -> None:
    sizes = {"build_seconds": 12.0, "update_seconds": 3.5, "index_bytes": {"built": 2e6}, "failed": None}
    contenders = {
        "no index": sizes,
        "parsieve": sizes,
        "secondary": sizes | {"update_seconds": 0.0, "failed": "an error"},
    }
    build = {"rows": 20_000_000, "files": 160, "contenders": contenders}
    case = {"question": "key", "moment": "built", "files": {"no index": 160, "parsieve": 1}}
    case["seconds"] = {"no index": [3.0, 4.0, 5.0], "parsieve": [0.5]}
    data = {"date": "d", "commit": "c" * 40, "machine": {"cpu": "c", "cores": 2}, "cases": [build, case]}
    record = type(measured.newest()["tables-python"])("i.json", data)
    section = measured.SECTIONS["indexes"]({"indexes-spark": record})
    assert "| no index | 160, 4 s | 12 s | 3.5 s | 2 MB |" in section
    assert "| **parsieve** | 1, 0.5 s | 12 s | 3.5 s | 2 MB |" in section
    assert "| secondary | - | 12 s | - | 2 MB |" in section
    assert "Failures in Hudi: `secondary: an error`." in section


def test_a_partial_experiment_shows_only_its_measurements(measured: ModuleType) -> None:
    record = measured.newest()["thesis-20000000-spark"]
    case = json.loads(json.dumps(record.data["cases"][0]))
    del case["built"]["Spark's sort"]
    case["asked"] = [query for query in case["asked"] if query["kind"] not in ("0.001", "absent key")]
    for query in case["asked"]:
        query["ways"].pop("full scan", None)
    lean = record._replace(data=record.data | {"cases": [case]})
    section = measured.SECTIONS["lineitem-600"]({"thesis-600000000-spark": lean})
    assert "600 million rows" in section
    assert "300 MB" in section
    assert "1/1,000 (" not in section
    assert "missing" not in section
    assert "sort" not in section
    assert "| - |" in section, "a missing measurement must not be shown as zero"


def test_the_large_build_has_a_section(measured: ModuleType) -> None:
    build = {"seconds": 3600.0, "peak_bytes_of_all_processes": 3e9, "peak_bytes_of_java": 2e9}
    build |= {"lookup_bytes": 1e9, "keys_bytes": 3e9, "bits_per_row": 13.3}
    case = {"rows": 600_000_000, "files": 60, "table_bytes": 5e9, "memory": "2g", "build": build}
    case["look_up"] = {"files_kept": 1.0, "plan_ms": 2.5}
    data = {"date": "d", "commit": "c" * 40, "machine": {"cpu": "c", "cores": 4}, "cases": [case]}
    section = measured.SECTIONS["large-build"](
        {"large-build-spark": type(measured.newest()["tables-python"])("l.json", data)}
    )
    assert "600 million rows in 60 files (5 GB), Spark with 2 GB. The build took 3,600 s and at most 3 GB" in section
    assert "13.3 bits per row (1 GB). The keys, which newer indexes do not store by default, take 3 GB." in section


def test_the_section_of_engines_shows_the_better_time_in_bold(measured: ModuleType) -> None:
    alone, ours = "alone", "with parsieve"
    case = {"question": "one user", "engine": "DuckDB", "seconds": {alone: 0.01, ours: 0.02}, "counted": {}}
    remote = case | {"seconds": {alone: 9.0, ours: 0.3}}
    remote["counted"] = {alone: {"bytes": 5e6, "requests": 400}, ours: {"bytes": 1e5, "requests": 12}}
    cases = [case | {"place": "warm"}, case | {"place": "cold"}, remote | {"place": "far"}]
    machine = {"cpu": "Some CPU", "cores": 2}
    record = type(measured.newest()["layouts-python"])(
        "e.json", {"date": "d", "commit": "c" * 40, "machine": machine, "cases": cases}
    )
    section = measured.SECTIONS["engines"]({"engines-spark": record})
    assert "| one user, DuckDB | **10 ms** → 20 ms | **10 ms** → 20 ms | 9 s → **300 ms** |" in section
    assert "| 5 MB → **100 kB** | 400 → **12** |" in section


def png(lines: list[tuple[int, list[int]]], width: int) -> bytes:
    """Return a PNG with three channels. Each line consists of its filter and its stored bytes."""
    raw = b"".join(bytes([kind, *line]) for kind, line in lines)
    header = struct.pack(">IIBBBBB", width, len(lines), 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def test_a_compressed_png_has_the_same_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/scripts"))
    palette = importlib.import_module("palette")
    # One line of two pixels for each filter of the format.
    lines = [
        (0, [10, 20, 30, 40, 50, 60]),
        (1, [1, 2, 3, 4, 5, 6]),
        (2, [1, 1, 1, 255, 255, 255]),
        (3, [10, 10, 10, 20, 20, 20]),
        (4, [7, 0, 0, 0, 9, 1]),
    ]
    decoded = palette.pixels(png(lines, 2))
    expected = [
        [[10, 20, 30], [40, 50, 60]],
        [[1, 2, 3], [5, 7, 9]],
        [[2, 3, 4], [4, 6, 8]],
        # Filter 3 adds the mean of the pixels to the left and above.
        [[11, 11, 12], [20 + (11 + 4) // 2, 20 + (11 + 6) // 2, 20 + (12 + 8) // 2]],
        [[18, 11, 12], [27, 37, 31]],
    ]
    assert decoded.tolist() == expected
    small = palette.small(png(lines, 2), {"Source": "a record"})
    assert palette.texts(small) == {"Source": "a record"}
    kinds = dict(palette.chunks(small))
    colors = np.frombuffer(kinds[b"PLTE"], np.uint8).reshape(-1, 3)
    stored = np.frombuffer(zlib.decompress(kinds[b"IDAT"]), np.uint8).reshape(5, 3)
    assert colors[stored[:, 1:]].tolist() == expected
