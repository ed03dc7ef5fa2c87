"""A table with many types, and SQL predicates about it."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa

UTC = dt.UTC
TABLE = pa.table(
    {
        "row": pa.array(range(8), pa.int64()),
        "i": pa.array([0, 1, 2, None, -1, 2**31 - 1, 5, 7], pa.int32()),
        "u": pa.array([0, 1, 255, None, 3, 4, 5, 6], pa.uint8()),
        "f": pa.array([0.0, -0.0, math.nan, None, 1.5, -1.5, math.inf, -math.inf]),
        "g": pa.array([0.1, 1.5, None, 2.0, math.nan, 0.0, 1.0, 3.0], pa.float32()),
        "s": pa.array(["", "a", "ab", None, "abc", "b%", "it's", "ä"]),
        "d": pa.array([Decimal(n) for n in ("0", "1.50", "-1.5", "2.25")] + [None] * 4, pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2026, 1, n) for n in range(1, 7)] + [None, dt.date(1969, 12, 31)]),
        "t": pa.array([dt.datetime(2026, 1, n, n) for n in range(1, 7)] + [None, dt.datetime(1969, 12, 31)]),
        "z": pa.array([dt.datetime(2026, 1, n, tzinfo=UTC) for n in range(1, 8)] + [None], pa.timestamp("us", "UTC")),
        "b": pa.array([True, False, None, True, False, None, True, False]),
        "st": pa.array([{"x": 1}, {"x": None}, None, {"x": 2}] * 2, pa.struct({"x": pa.int32()})),
    }
)

ATOMS = """
s LIKE '%b'|s LIKE '_b%'|s LIKE '%!%' ESCAPE '!'|s LIKE 'a_'|s LIKE '_'|s LIKE '%_'|s LIKE 'a%c'|s NOT LIKE '%b%'
s ILIKE '%B%'|s NOT ILIKE 'AB%'|s ILIKE '%'|contains(s, 'b')|contains(s, '')|ends_with(s, 'b')|suffix(s, '''s')
contains(s, NULL)|s ILIKE '%!%' ESCAPE '!'|s LIKE ''|s ILIKE '%B'|s NOT ILIKE '%b'|CAST(u AS DECIMAL(3, 0)) > 4
i = 1|i <> 1|i < 2|i >= 1.5|i > -1|1 < i|i = 1.0|i BETWEEN 1 AND 5|i NOT BETWEEN 1 AND 5|i IN (1, 2)
i NOT IN (1, 2)|i IN (1, NULL)|i NOT IN (1, NULL)|i = NULL|i IS NULL|i IS NOT NULL|i IS DISTINCT FROM 1
i IS NOT DISTINCT FROM NULL|u < 256|u = -1|u >= 255|CAST(i AS BIGINT) = 1|i::BIGINT > 1
CAST(i AS DOUBLE) < 1.5|CAST(i AS DECIMAL(12, 0)) = 1
NULL|TRUE|FALSE|i IN (1)|f > 1|f >= 1.5|f = 0|f <> 0|f < 'inf'::DOUBLE
f = 'nan'::DOUBLE|f <= 'nan'::DOUBLE|f > 'nan'::DOUBLE|isnan(f)|f IN (0, 1.5)|f != 'NaN'
f BETWEEN -1.5 AND 1.5|g > 1.5|g <> 2|g <= 1.5|g = 1.5|s = 'a'|s LIKE 'a%'|s NOT LIKE 'a%'
s LIKE 'b!%' ESCAPE '!'|s LIKE 'ab'|s LIKE '%'|s > 'a'|starts_with(s, 'ab')|s = 'it''s'|s < ''|s IN ('a', 'ä')
s LIKE NULL|s NOT LIKE 'b!%' ESCAPE '!'|d = 1.5|d > 1.505|d < -1.495|d IN (1.5, 2.25, 3.333)|d = '2.25'|d >= 2
CAST(d AS DECIMAL(12, 4)) = 1.5|d <> 1.50|day = '2026-01-02'|day > DATE '2026-01-02'
day < TIMESTAMP '2026-01-02 12:00:00'|day BETWEEN '2026-01-02' AND '2026-01-04'
CAST(day AS TIMESTAMP) < '2026-01-02 12:00:00'|t = '2026-01-02 02:00:00'|t > DATE '2026-01-02'
CAST(t AS DATE) = '2026-01-02'|CAST(t AS DATE) <> '2026-01-02'|CAST(t AS DATE) <= '2026-01-02'
CAST(t AS DATE) > '2026-01-02'|CAST(t AS DATE) IN ('2026-01-02', NULL)|CAST(t AS DATE) < '2026-01-02'
CAST(t AS DATE) >= '2026-01-02'|t::date = DATE '2026-01-03'|date(t) = '2026-01-03'
z >= '2026-01-02 00:00:00+00'|z < TIMESTAMPTZ '2026-01-03 01:00:00+01:00'|z = '2026-01-02T00:00:00Z'|b|NOT b
b = TRUE|b <> TRUE|b IS TRUE|b IS NOT TRUE|b IS FALSE|b IS NOT FALSE|b IS NULL|st.x = 1|st.x IS NULL|st.x <> 1
st.x IN (1, NULL)|"i" = 1|I = 1|date_trunc('hour', t) = TIMESTAMP '2026-01-02 02:00:00'|year(t) = 2026
date_trunc('hour', t) <> '2026-01-02 02:00:00'|date_trunc('hour', t) > '2026-01-02 01:30:00'|year(t) <> 2025
date_trunc('day', t) IN (DATE '2026-01-02', NULL)|date_trunc('hour', t) = '2026-01-02 02:30:00'
date_trunc('month', day) <= DATE '2026-01-01'|date_trunc('week', t) >= '2026-01-05'|extract(year FROM t) < 2026
date_trunc('hour', t) <> '2026-01-02 02:30:00'|CAST(date_trunc('month', t) AS DATE) = '2026-01-01'
date_trunc('week', t) IS NULL|year(day) IN (2025, 2026)
"""
SQL = st.recursive(
    st.sampled_from(ATOMS.strip().replace("\n", "|").split("|")),
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=4,
)
