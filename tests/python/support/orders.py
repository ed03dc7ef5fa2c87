"""Random orders of rows, and the first rows that Python finds by brute force."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import pyarrow as pa

import parsieve as ps
from parsieve.plan.order.ordered_plan import OrderedPlan
from support.rows.conditions import at_path, paths_of, plain_values, random_condition, truths
from support.rows.languages import LANGUAGES, UnsayableError
from support.rows.reading import difference, take

UID = "uid"


@dataclass(frozen=True)
class Order:
    """The arguments of `Table.plan` about the order of rows. Without `order_by`, any rows are the first."""

    order_by: Sequence[str] | None
    descending: bool = False
    nulls: str = "last"
    limit: int | None = None

    def ranks(self, rows: pa.Table) -> list[tuple[int, int]]:
        """Return a key for each row that sorts rows in this order. Rows with equal keys have no order."""
        if self.order_by is None:
            return [(0, 0)] * len(rows)
        values = plain_values(at_path(rows, self.order_by))
        # NaN is not equal to itself.
        numbers = {
            value: number for number, value in enumerate(sorted({v for v in values if v is not None and v == v}))
        }
        null, nan = 0 if self.nulls == "first" else 3, 1 if self.descending else 2

        def rank(value: Any) -> tuple[int, int]:
            if value is None:
                return null, 0
            if value != value:
                return nan, 0
            return 3 - nan, -numbers[value] if self.descending else numbers[value]

        return list(map(rank, values))


def random_order(chance: random.Random, schema: pa.Schema) -> Order:
    """Return the order of a column, seldom none, and a limit or none."""
    limit = chance.choice((0, 1, 1, 2, 3, 5, 10, 10, 40, 1000, None))
    if chance.random() < 0.05:
        return Order(None, limit=10 if limit is None else limit)
    path, _ = chance.choice(paths_of(schema))
    return Order(path, chance.random() < 0.5, chance.choice(("first", "last")), limit)


def answers(plan: ps.Plan) -> Iterator[tuple[str, list[int]]]:
    """Yield the rows that each method of a plan returns, by the values of the column `uid`."""
    yield "columns", plan.to_arrow([UID])[UID].to_pylist()
    yield "to_batches", [uid for batch in plan.to_batches([UID]) for uid in batch[UID].to_pylist()]
    yield "Arrow stream", pa.table(plan)[UID].to_pylist()
    yield "to_dataset", plan.to_dataset().to_table()[UID].to_pylist()
    yield "to_polars", plan.to_polars().collect()[UID].to_list()
    with duckdb.connect() as connection:
        yield "to_duckdb", [uid for (uid,) in plan.to_duckdb(connection).project(UID).fetchall()]
    yield "pickle", pickle.loads(pickle.dumps(plan)).to_arrow([UID])[UID].to_pylist()


def check(table: ps.Table, rows: pa.Table, chance: random.Random) -> int:
    """Compare the first rows of a random condition with brute force. Return how many candidates were not read.

    `rows` are all rows of the table. Their column `uid` has different values.
    """
    order = random_order(chance, rows.schema)
    matches, request = list(range(len(rows))), {}
    if chance.random() < 0.9:
        language = chance.choice([language for language in LANGUAGES if language.name in ("sql", "typed", "tuples")])
        leaves = [leaf for leaf in paths_of(rows.schema) if language.accepts(leaf[1])]
        condition = random_condition(chance, rows, leaves, language.ops, language.shape, depth=1)
        assert condition is not None
        try:
            request = language.render(condition, rows.schema, chance)
        except UnsayableError:
            return 0
        matches = [row for row, truth in enumerate(truths(condition, rows, language.rules)) if truth is True]
    about = f"{request}, {order}"
    footers = chance.choice((None, True, False))
    plan = table.plan(**request, **asdict(order), row_groups=footers, on_unknown="error")
    assert isinstance(plan, OrderedPlan)
    ranks = order.ranks(rows)
    expected = sorted(ranks[row] for row in matches)[: order.limit]
    uids = rows[UID].to_pylist()
    by_uid = {uids[row]: row for row in matches}

    def places(found: list[int], method: str) -> list[int]:
        """Return the numbers of the rows that a method returned."""
        assert len(set(found)) == len(found), f"{about}: {method} returns a row twice"
        assert by_uid.keys() >= set(found), f"{about}: {method} returns rows that do not match"
        found = [by_uid[uid] for uid in found]
        assert [ranks[row] for row in found] == expected, f"{about}: the order of {method}"
        return found

    reader = plan.first_rows()
    first = reader.read(None, None)
    wanted = take(rows, places(first[UID].to_pylist(), "to_arrow"))
    different = difference(first, wanted)
    assert different is None, f"{about}: {different}"
    for method, found in answers(plan):
        places(found, method)
    return len(plan.record.kept) - reader.files_read
