"""Files of random texts, random conditions on them, and the rows that DuckDB finds by brute force."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

WORDS = ["error", "time-out", "GET", "id", "café", "0a9f", "x7", "50%", "a_b", "b\u0301", "user", "\U0001f600"]
SEPARATORS = [" ", "-", "=", "", "\n", "_"]
TOKENS = ["error", "time", "id", "café", "0a9f", "GET", "a", "missing", "b\u0301", "\U0001f600", "50"]
# The words of a text: unbroken runs of ASCII letters, ASCII digits and non-ASCII characters. parsieve finds them in
# another way.
MACRO = r"""CREATE MACRO has_token(text, token) AS
    list_contains(regexp_split_to_array(text, '[\x00-/:-@\[-`{-\x7f]'), token)"""


def random_text(chance: random.Random) -> str | None:
    """Return a text of a few words, or null."""
    if chance.random() < 0.05:
        return None
    words = chance.choices(WORDS, k=chance.randrange(4))
    return "".join(word + chance.choice(SEPARATORS) for word in words)


def random_rows(chance: random.Random, first: int, size: int = 24) -> pa.Table:
    """Return rows with the ids from `first` on. Neighboring rows are alike, so that some units lack a text."""
    texts: list[str | None] = []
    while len(texts) < size:
        texts += [random_text(chance)] * chance.randrange(1, 6)
    return pa.table({"id": pa.array(range(first, first + size)), "s": pa.array(texts[:size], pa.string())})


def random_condition(chance: random.Random, depth: int = 1) -> str:
    """Return a condition that parsieve understands, and that DuckDB reads in the same way with the macro."""
    form = chance.randrange(9 if depth else 6)
    text = (random_text(chance) or "id ") + chance.choice(["", " ", "="])
    if form == 0:
        return f"has_token(s, '{chance.choice(TOKENS)}')"
    if form == 1:
        return f"{chance.choice(['contains', 'starts_with', 'ends_with'])}(s, '{text[: chance.choice([3, 5, 20])]}')"
    if form == 2:
        return f"s ILIKE '%{chance.choice(['error', 'get', 'GET ', 'x7', '0A9F', 'rror-', 'ut='])}%'"
    if form <= 5:
        text = "".join("!" + character if character in "%_!" else character for character in text)
        wildcards = chance.choice(["%{}%", "{}%", "%{}", "% {} %", "_%{} %"])
        return f"s LIKE '{wildcards.format(text)}' ESCAPE '!'"
    if form == 6:
        return f"NOT ({random_condition(chance, depth - 1)})"
    joiner = " AND " if form == 7 else " OR "
    return joiner.join(f"({random_condition(chance, depth - 1)})" for _ in range(2))


def matching(rows: pa.Table, condition: str) -> set[int]:
    """Return the ids of the rows for which DuckDB finds a condition true."""
    with duckdb.connect() as con:
        con.execute(MACRO)
        con.register("rows", rows)
        return {row for (row,) in con.execute(f"SELECT id FROM rows WHERE {condition}").fetchall()}


class History:
    """Files that change, with the rows of each."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.rows: dict[str, pa.Table] = {}
        self.next_id = 0

    def write(self, name: str) -> None:
        """Write or replace a file."""
        self.rows[name] = random_rows(self.chance, self.next_id)
        self.next_id += self.rows[name].num_rows
        pq.write_table(self.rows[name], self.folder / name, row_group_size=self.chance.choice([3, 5, 24]))

    @property
    def everything(self) -> pa.Table:
        """The rows of all files."""
        return pa.concat_tables(self.rows.values())

    def kept(self, plan: ps.Plan) -> set[int]:
        """Return the ids of the rows that a plan keeps."""
        kept: set[int] = set()
        for path, ranges in plan.row_ranges.items():
            ids = self.rows[Path(path).name]["id"].to_pylist()
            kept.update(ids if ranges is None else (id for start, rows in ranges for id in ids[start : start + rows]))
        return kept

    def check(self, table: ps.Table, condition: str) -> int:
        """Compare the rows of a plan with brute force, and return how many rows it skips."""
        expected = matching(self.everything, condition)
        plan = table.plan(condition)
        kept = self.kept(plan)
        assert expected <= kept, condition
        assert set(plan.to_arrow()["id"].to_pylist()) == expected, condition
        return len(set(self.everything["id"].to_pylist()) - kept)

    def check_engines(self, table: ps.Table, condition: str) -> None:
        """Compare the rows that Polars, DuckDB and pyarrow read by a plan with brute force."""
        expected = matching(self.everything, condition)
        plan = table.plan(condition)
        assert set(plan.to_polars().collect()["id"].to_list()) == expected, condition
        assert set(plan.to_dataset().to_table()["id"].to_pylist()) == expected, condition
        with duckdb.connect() as con:
            assert {row[0] for row in plan.to_duckdb(con).fetchall()} == expected, condition
