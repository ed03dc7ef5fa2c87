"""The table of conditions in docs/concepts/predicates.md is correct: all forms of a condition match the same rows."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "predicates.md"
LANGUAGES = ("SQL", "pyarrow", "Polars", "tuples")


def conditions() -> list[dict[str, str]]:
    """Return the forms of each condition in the table, by language."""
    lines = PAGE.read_text().splitlines()
    first = lines.index(f"| {' | '.join(LANGUAGES)} |") + 2
    conditions = []
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        cells = [cell.strip().replace("\\|", "|").strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        conditions.append({name: cell for name, cell in zip(LANGUAGES, cells, strict=True) if cell})
    return conditions


def predicate_of(language: str, text: str) -> Any:
    if language == "SQL":
        return text
    value = eval(text, {"f": pc.field, "pc": pc, "c": pl.col})
    return [value] if isinstance(value, tuple) else value


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> ps.Table:
    folder = tmp_path_factory.mktemp("conditions")
    rows = {
        "id": [2, 3, 5, 7, 8, None],
        "name": ["ab", "abc", "x ab", "ABxC", "ac", "cab"],
        "tags": [["x"], ["y", "x"], ["y"], [], ["xx"], None],
        "ts": [dt.datetime(2025 + n % 2, 12, 31, 23, n) for n in range(6)],
        "paid": [True, False, True, True, False, False],
    }
    pq.write_table(pa.table(rows), folder / "a.parquet")
    return ps.open_table(folder)


@pytest.mark.parametrize("forms", conditions(), ids=lambda forms: forms["SQL"])
def test_all_forms_match_the_same_rows(table: ps.Table, forms: dict[str, str]) -> None:
    rows = [table.plan(predicate_of(language, text)).to_arrow() for language, text in forms.items()]
    for number, others in enumerate(rows):
        # In pyarrow and in tuples, `not in` is true for nulls, as the page says.
        if forms["SQL"] == "id NOT IN (3, 7)" and list(forms)[number] in ("pyarrow", "tuples"):
            others = others.filter(pc.field("id").is_valid())
        assert others.equals(rows[0])
    assert 0 < len(rows[0]) < 6
