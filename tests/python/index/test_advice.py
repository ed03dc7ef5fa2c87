"""`advise` and `kind="auto"` choose the index kind with the lowest costs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.index.advice import _judge

FILES = 24


def table_of(folder: Path, values: Callable[[int], pa.Array], padding: int = 2_000) -> ps.Table:
    """Write files with a column of keys and a column of random bytes."""
    for part in range(FILES):
        key = values(part)
        noise = random.Random(part).randbytes(padding)
        pq.write_table(
            pa.table({"key": key, "noise": pa.array([noise] + [b""] * (len(key) - 1))}), folder / f"{part:02}.parquet"
        )
    wait_until_old(folder)
    return ps.open_table(str(folder))


def everywhere(part: int) -> pa.Array:
    return pa.array(range(50), pa.int64())


def in_order(part: int) -> pa.Array:
    return pa.array(range(part * 50, part * 50 + 50), pa.int64())


def scattered(part: int) -> pa.Array:
    """Return unique keys, dealt out like cards: the range of each file covers nearly all keys."""
    return pa.array(range(part, 500 * FILES, FILES), pa.int64())


def by_digest(part: int) -> pa.Array:
    """Return random strings, each in a single file. A Sieve needs more bits to distinguish them than a filter."""
    chance = random.Random(part)
    return pa.array([chance.randbytes(24).hex() for _ in range(2_000)])


@pytest.mark.parametrize("values", [everywhere, in_order])
def test_no_index_is_advised_if_none_pays_off(tmp_path: Path, values: Callable[[int], pa.Array]) -> None:
    table = table_of(tmp_path, values)
    [advice] = table.advise("key")
    assert advice.recommendation == "none"
    assert advice.why
    assert table.build_index("key").columns == {"key": "none"}
    assert table.index_stats() == {}


def test_a_sieve_is_advised_for_scattered_keys(tmp_path: Path) -> None:
    table = table_of(tmp_path, scattered)
    [advice] = table.advise("key")
    assert advice.recommendation == "sieve"
    assert advice.minmax_reads == pytest.approx(FILES, rel=0.2)
    assert advice.sieve_reads < 2
    assert "sieve" in str(advice)
    assert table.build_index("key").columns == {"key": "sieve"}
    assert len(table.plan("key = 77").files) == 1
    assert len(table.plan("key BETWEEN 77 AND 78").files) == 2


def test_files_without_a_value_are_not_read_for_a_key(tmp_path: Path) -> None:
    """Every fourth file has keys. At even distances, a sample would have these files only, or none of them."""
    chance = random.Random(3)
    for part in range(64):
        keys = [chance.randrange(10**9) if part % 4 == 0 else None for _ in range(1_000)]
        pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), tmp_path / f"{part:02}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    [advice] = table.advise("key")
    key = pq.read_table(tmp_path / "32.parquet")["key"][7].as_py()
    assert len(table.plan(f"key = {key}", row_groups=True).files) == 16
    assert advice.minmax_reads == pytest.approx(16, rel=0.5)
    assert advice.recommendation == "sieve"
    table.build_index("key", kind="sieve")
    assert advice.sieve_bytes == pytest.approx(table.index_stats()["key"].stored_bytes, rel=0.5)


def test_files_that_an_index_leaves_out_are_always_read(tmp_path: Path) -> None:
    table = table_of(tmp_path, scattered)
    [before] = table.advise("key")
    for part in range(0, FILES, 2):
        pq.write_table(pa.table({"key": pa.array(["text"])}), tmp_path / f"{part + 1:02}.parquet")
    wait_until_old(tmp_path)
    [advice] = ps.open_table(tmp_path).advise("key")
    assert before.sieve_reads < 2
    assert advice.sieve_reads == pytest.approx(FILES / 2, rel=0.5)
    assert advice.bloom_reads == pytest.approx(FILES / 2, rel=0.5)


def test_the_estimated_size_counts_a_key_in_several_files_once(tmp_path: Path) -> None:
    chance = random.Random(5)
    for part in range(64):
        keys = pa.array([chance.randrange(6_400) for _ in range(1_000)])
        pq.write_table(pa.table({"key": keys}), tmp_path / f"{part:02}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    [advice] = table.advise("key")
    table.build_index("key", "sieve", unit="file")
    assert advice.sampled == 16
    assert advice.sieve_lookup_bytes == pytest.approx(table.index_stats()["key"].lookup_bytes, rel=0.25)


@pytest.mark.parametrize("lost", ["INT96", "statistics"])
def test_files_without_minima_and_maxima_need_an_index_of_a_sorted_column(tmp_path: Path, lost: str) -> None:
    for part in range(20):
        times = pa.array(range(part * 10**12, (part + 1) * 10**12, 10**9), pa.timestamp("ns"))
        pq.write_table(
            pa.table({"at": times}),
            tmp_path / f"{part:02}.parquet",
            use_deprecated_int96_timestamps=lost == "INT96",
            write_statistics=lost != "statistics",
        )
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    [advice] = table.advise("at")
    assert (advice.minmax_reads, advice.recommendation) == (20, "sieve")
    moment = pa.scalar(7 * 10**12, pa.timestamp("ns")).as_py()
    assert len(table.plan([("at", "=", moment)]).files) == 20
    table.build_index("at")
    assert len(table.plan([("at", "=", moment)]).files) == 1


def test_a_bloom_index_is_advised_for_point_queries_of_random_keys(tmp_path: Path) -> None:
    table = table_of(tmp_path, by_digest)
    key = by_digest(3)[5].as_py()
    [advice] = table.advise(queries=[[("key", "=", key)]])
    assert advice.bloom_absent < advice.sieve_absent or advice.bloom_bytes < advice.sieve_bytes
    assert advice.recommendation == "bloom"
    assert table.advise(queries=[[("key", ">=", key), ("key", "<", key + "~")]])[0].recommendation == "sieve"


def test_advice_accepts_a_time_zone_for_literals_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(tmp_path, lambda part: pa.array(range(part, 2_000 * FILES, FILES), pa.timestamp("s", "UTC")))
    query = "key BETWEEN '1970-01-01 00:00:05' AND '1970-01-01 00:00:06'"
    with pytest.raises(ValueError, match=r"the queries name no column.*timezone="):
        table.advise(queries=[query])
    [advice] = table.advise("key")
    for result in (
        table.advise(queries=[query], timezone="Europe/Berlin"),
        ps.advise(table, None, query, timezone="UTC"),
    ):
        assert result == [advice._replace(build_seconds=result[0].build_seconds)]
    assert main(["advise", str(tmp_path), "--where", query, "--timezone", "UTC"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("key")
    assert main(["advise", str(tmp_path), "--where", query]) == 2


@pytest.mark.parametrize(
    ("slice_bytes", "absent", "ranges", "kind"),
    [
        # Reading a second index costs more than reading a small file unnecessarily now and then.
        (1 << 20, 1.0, True, "sieve"),
        (1 << 30, 1.0, True, "both"),
        # A Sieve without false positives does not need filters.
        (1 << 30, 0.0, True, "sieve"),
        (1 << 20, 1.0, False, "bloom"),
    ],
)
def test_both_kinds_are_advised_for_large_files(slice_bytes: int, absent: float, ranges: bool, kind: str) -> None:
    reads = {"minmax_reads": 100.0, "bloom_reads": 1.1, "sieve_reads": 1.0}
    none = {"minmax_absent": 100.0, "bloom_absent": 0.1, "sieve_absent": absent}
    size = {"sieve_bytes": 8 << 20, "sieve_lookup_bytes": 1 << 20, "bloom_bytes": 10 << 20, "build_seconds": 1.0}
    advice = ps.Advice(column="k", recommendation="none", why="", slices=1000, sampled=16, **reads, **none, **size)  # type: ignore[arg-type]
    assert _judge(advice, slice_bytes, ranges, fpp=0.01)[0] == kind


def test_the_command_prints_the_kind_that_was_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_of(tmp_path, in_order)
    assert main(["index", "build", str(tmp_path), "key"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("key: no index")
    assert "--kind sieve" in printed.out
    assert main(["index", "build", str(tmp_path), "key", "--kind", "bloom"]) == 0
    assert "bloom" in capsys.readouterr().out.lower()
    assert main(["index", "build", str(tmp_path), "key", "--kind", "both"]) == 0
    assert capsys.readouterr().out
    assert main(["index", "stats", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:4] == ["key", "both", "24", "1,200"]


def test_both_kinds_are_built_and_unknown_kinds_are_rejected(tmp_path: Path) -> None:
    table = table_of(tmp_path, scattered)
    assert table.build_index("key", kind="both").columns == {"key": "both"}
    assert len(table.plan("key = 77").files) == 1
    assert table.plan("key IN (-1, 12000)").files == []
    assert len(table.plan("key BETWEEN 77 AND 78").files) == 2
    assert table.verify_index() == []
    with pytest.raises(ValueError, match="kind must be"):
        table.build_index("key", kind="magic")
    with pytest.raises(ValueError, match="at least one column"):
        table.build_index([])


def test_neither_kind_is_built_if_one_is_unsupported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "flag": [True, False]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    with pytest.raises(ps.UnsupportedError, match="BOOLEAN"):
        table.build_index(["id", "flag"], kind="both")
    assert table.index_kinds() == {}
    assert not index_of(tmp_path).exists()


@pytest.mark.parametrize(
    "kind", [pa.float16(), pa.decimal32(9, 2), pa.decimal64(18, 2), pa.uuid(), pa.duration("us")], ids=str
)
def test_types_that_pyarrow_cannot_sort_get_advice_and_an_index(tmp_path: Path, kind: pa.DataType) -> None:
    """Such a column can be indexed, and does not prevent advice for the table."""

    def values(part: int) -> pa.Array:
        numbers = [part + 24 * n for n in range(20)]
        if kind == pa.uuid():
            return pa.array([number.to_bytes(16) for number in numbers], pa.binary(16)).cast(kind)
        if kind == pa.float16():
            return pa.array(numbers, pa.float32()).cast(kind)
        return pa.array(numbers, kind if kind == pa.duration("us") else pa.int16()).cast(kind)

    table = table_of(tmp_path, values)
    advice, _ = table.advise()
    assert advice.column == "key"
    assert advice.minmax_reads == pytest.approx(FILES, rel=0.2)
    assert table.build_index("key").columns == {"key": advice.recommendation}
    assert table.build_index("key", kind="sieve").columns == {"key": "sieve"}
    assert table.verify_index() == []


def test_advice_and_builds_skip_unreadable_files(tmp_path: Path) -> None:
    table_of(tmp_path, scattered)
    pq.write_table(pa.table({"key": ["text"], "noise": [b""]}), tmp_path / "07.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    [advice] = table.advise("key")
    assert advice.recommendation == "sieve"
    assert table.build_index("key").columns == {"key": "sieve"}
