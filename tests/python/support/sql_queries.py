"""Random SQL conditions on the tables of `frame_queries`, in words that DuckDB and DataFusion have in common."""

from __future__ import annotations

import random
from collections.abc import Callable

from support.frame_queries import SCHEMA

_OPS = ("=", "<>", "<", "<=", ">", ">=")
_TEXTS = ("''", "'a'", "'ab'", "'abc'", "'b'", "'ä'", "'a_b'")
_REALS = ("CAST('NaN' AS DOUBLE)", "-0.0", "0.0", "1.5", "-7.25", "CAST('Infinity' AS DOUBLE)", "9999999.979999999")


def _time(random_: random.Random) -> str:
    minute = random_.randrange(1000)
    return f"TIMESTAMPTZ '2026-01-01 {minute // 60:02}:{minute % 60:02}:00+00:00'"


def _list(values: list[str]) -> str:
    return f"({', '.join(values)})"


_LEAVES: list[Callable[[random.Random], str]] = [
    lambda r: f"id {r.choice(_OPS)} {r.randrange(400)}",
    lambda r: f"id {r.choice(('IN', 'NOT IN'))} {_list([str(r.randrange(400)) for _ in range(r.randrange(1, 6))])}",
    lambda r: f"id BETWEEN {r.randrange(200)} AND {r.randrange(400)}",
    lambda r: f"number {r.choice(_OPS)} {r.randrange(-6, 6)}",
    lambda r: f"number {r.choice(('IN', 'NOT IN'))} (1, 2, NULL)",
    lambda r: f"number {r.choice(('IN', 'NOT IN'))} (-3, 4)",
    lambda r: f"real {r.choice(_OPS)} {r.choice(_REALS)}",
    lambda r: f"real IN {_list(list(r.sample(_REALS, 2)))}",
    lambda r: f"text {r.choice(_OPS)} {r.choice(_TEXTS)}",
    lambda r: f"text IN {_list(list(r.sample(_TEXTS, 3)))}",
    lambda r: f"text LIKE {r.choice(('''a%''', '''%b%''', '''a_b''', '''ab'''))!r}",
    lambda r: "flag",
    lambda r: f"flag {r.choice(('= TRUE', '<> FALSE', 'IS NULL', 'IS NOT TRUE'))}",
    lambda r: f"{r.choice(SCHEMA.names)} IS {r.choice(('', 'NOT '))}NULL",
    lambda r: f"time {r.choice(_OPS)} {_time(r)}",
    lambda r: f"day {r.choice(_OPS)} DATE '2026-01-{r.randrange(1, 31):02}'",
    lambda r: f"text IS {r.choice(('', 'NOT '))}DISTINCT FROM {r.choice((*_TEXTS, 'NULL'))}",
    lambda r: f"id + number > {r.randrange(400)}",
    lambda r: f"id % 7 = {r.randrange(7)}",
    lambda r: f"lower(text) = {r.choice(_TEXTS)}",
]


def random_condition(random_: random.Random, depth: int = 2) -> str:
    """Return a condition."""
    if depth and random_.random() < 0.6:
        parts = [random_condition(random_, depth - 1) for _ in range(random_.choice((2, 2, 3)))]
        text = "(" + f" {random_.choice(('AND', 'OR'))} ".join(parts) + ")"
        return f"NOT {text}" if random_.random() < 0.3 else text
    return f"({random_.choice(_LEAVES)(random_)})"


def random_query(random_: random.Random, table: str) -> str:
    """Return a query whose rows have one order only."""
    where, other = random_condition(random_), random_condition(random_, 1)
    columns = ", ".join(random_.sample(SCHEMA.names, random_.randrange(1, len(SCHEMA.names))))
    queries = [
        f"SELECT * FROM {table} WHERE {where} ORDER BY id",
        f"SELECT {columns}, id AS own FROM {table} WHERE {where} ORDER BY id",
        f"SELECT count(*) AS a FROM {table} WHERE {where}",
        f"SELECT sum(id) AS a, min(text) AS b, max(day) AS c FROM {table} WHERE {where}",
        f"SELECT id FROM {table} WHERE {where} ORDER BY id DESC LIMIT {random_.randrange(1, 20)}",
        f"SELECT text, count(*) AS a FROM {table} WHERE {where} GROUP BY text ORDER BY text",
        f"SELECT a.id, b.text FROM {table} a JOIN {table} b ON a.id = b.id + 1 WHERE a.id > 20 ORDER BY a.id",
        f"SELECT id, text FROM (SELECT * FROM {table} WHERE {where}) AS kept WHERE {other} ORDER BY id",
        f"SELECT id FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {where}) ORDER BY id",
    ]
    return random_.choice(queries)
