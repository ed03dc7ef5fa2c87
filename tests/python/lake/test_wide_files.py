"""In files with many columns, the fields of each level are indexed once, not once per column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.lake.rows.arrow_scan import ScanFile, mismatch
from parsieve.lake.rows.columns import Find, Matching, by_name, conform
from parsieve.lake.rows.file_rows import FileRows
from parsieve.lake.storage.storage import Storage
from parsieve.plan.evidence.file_filters import FilterAnswers
from parsieve.plan.evidence.footers import FileFooter

NAMES = [f"c{number}" for number in range(300)]


class CountedFields(list[pa.Field]):
    """Fields that count how often they are iterated over."""

    iterations = 0

    def __iter__(self) -> Iterator[pa.Field]:
        self.iterations += 1
        return super().__iter__()


def test_fields_are_indexed_once() -> None:
    fields = CountedFields(pa.field(name, pa.int64()) for name in NAMES)
    places = Matching(by_name).places(list(fields), fields)
    assert places == list(range(len(NAMES)))
    assert fields.iterations == 2


def test_each_level_of_a_file_is_indexed_once(tmp_path: Path) -> None:
    indexed: list[int] = []

    def index(among: Sequence[pa.Field]) -> Find:
        indexed.append(len(among))
        return by_name(among)

    matching = Matching(index)
    table = pa.table({name: [1] for name in NAMES} | {"s": [dict.fromkeys(NAMES, 1)]})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    file = ScanFile(Storage(str(tmp_path)), str(path), str(path), path.stat().st_size, matching=matching)
    assert mismatch(table.schema, table.schema, file) is None
    assert sorted(indexed) == [300, 301]
    indexed.clear()
    (batch,) = FileRows(lambda: str(path), str(path), matching).batches(table.schema)
    assert batch.num_columns == 301
    assert len(indexed) <= 3
    indexed.clear()
    wider = pa.struct({name: pa.int64() for name in reversed(NAMES)})
    assert conform(table["s"].combine_chunks(), wider, matching).type == wider
    assert indexed == [300]


@pytest.mark.parametrize("method", ["to_arrow", "to_batches"])
@pytest.mark.parametrize(
    ("name", "message"),
    [("c77x", "no column 'c77x'; did you mean 'c77'"), ("?", "the columns are: c0, c1, .*and 280 more")],
)
def test_the_error_for_a_missing_column_is_short(tmp_path: Path, method: str, name: str, message: str) -> None:
    pq.write_table(pa.table({name: [1] for name in NAMES}), tmp_path / "a.parquet")
    plan = ps.open_table(tmp_path).plan("c1 = 1")
    with pytest.raises(ps.ColumnNotFoundError, match=message):
        list(getattr(plan, method)(columns=[name]))


def test_each_file_is_searched_for_filters_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each condition, because each search looks at the columns of all conditions."""
    searched: list[FileFooter] = []
    search = FilterAnswers.has_filters

    def counted(self: FilterAnswers, footer: FileFooter) -> bool:
        searched.append(footer)
        return search(self, footer)

    monkeypatch.setattr(FilterAnswers, "has_filters", counted)
    for number in range(3):
        pq.write_table(pa.table({name: [number, number + 2] for name in NAMES}), tmp_path / f"{number}.parquet")
    counts = []
    for names in (NAMES[:3], NAMES):
        searched.clear()
        plan = ps.open_table(tmp_path).plan(" AND ".join(f"{name} = 2" for name in names), row_groups=True)
        assert len(plan.files) == 3
        counts.append(len(searched))
    assert counts[0] == counts[1]
