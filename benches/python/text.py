"""Text inside log lines, URLs and stack traces: with text and words indexes, and with other tools and their indexes.

The words follow Zipf's law, and most rows have an identifier. The questions look for a word or 12 characters that few
rows have, and for a word of no row. All contenders must return the same rows. The bench also compares the predictions
of `advise` with the indexes. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chdb
import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import record

import parsieve as ps
from parsieve.index.text.advice import draw_needles

# Files, row groups in a file, and rows in a row group.
Shape = tuple[int, int, int]
SHAPES: dict[str, Shape] = {"log lines": (20, 6, 8192), "URLs": (20, 6, 8192), "stack traces": (20, 4, 2048)}
INDEXES = [(kind, unit) for kind in ("text", "words") for unit in ("file", "row_group")]
TOKENIZERS = {"ClickHouse, words": "splitByNonAlpha", "ClickHouse, trigrams": "ngrams(3)"}
LANCE = "Lance, NGRAM"
SECONDS = 1_772_323_200


@dataclass(frozen=True)
class Question:
    """A text that a row contains, as a whole word or anywhere."""

    kind: str
    text: str
    is_word: bool

    @property
    def regex(self) -> str:
        return rf"(^|[^A-Za-z0-9]){self.text}($|[^A-Za-z0-9])"


Ask = Callable[[Question], list[int]]


class Words:
    """Made-up words, drawn by Zipf's law."""

    def __init__(self, random: np.random.Generator, count: int) -> None:
        letters = random.integers(97, 123, (count, 10), dtype=np.uint8)
        lengths = random.integers(3, 11, count)
        self.words = [bytes(row[:length]).decode() for row, length in zip(letters, lengths, strict=True)]
        self._random = random

    def draw(self, rows: int, each: int) -> list[list[str]]:
        """Return some words for each row."""
        ranks = np.minimum(self._random.zipf(1.15, (rows, each)), len(self.words)) - 1
        return [[self.words[rank] for rank in row] for row in ranks.tolist()]


def log_lines(random: np.random.Generator, words: Words, rows: int) -> list[str]:
    hosts, levels = random.integers(0, 200, rows).tolist(), random.choice(["INFO", "WARN", "ERROR"], rows).tolist()
    seconds = (SECONDS + np.sort(random.integers(0, 3600, rows))).tolist()
    return [
        f"{second} web-{host:03} {level} {' '.join(text)} request={random.bytes(8).hex()}"
        for second, host, level, text in zip(seconds, hosts, levels, words.draw(rows, 8), strict=True)
    ]


def urls(random: np.random.Generator, words: Words, rows: int) -> list[str]:
    ids = random.integers(0, 10**9, rows).tolist()
    return [
        f"https://www.{host}.example/{first}/{second}-{third}/{number}?utm_source={source}&q={query}"
        for number, (host, first, second, third, source, query) in zip(ids, words.draw(rows, 6), strict=True)
    ]


def stack_traces(random: np.random.Generator, words: Words, rows: int) -> list[str]:
    methods = [
        f"\tat com.example.{package}.{name.title()}.{method}({name.title()}.java:{line})"
        for line, (package, name, method) in enumerate(words.draw(20_000, 3), 10)
    ]
    ranks = np.minimum(random.zipf(1.15, (rows, 9)), len(methods)) - 1
    return [
        f"java.lang.IllegalStateException: {' '.join(text)} id={random.bytes(4).hex()}\n"
        + "\n".join([methods[rank] for rank in frames])
        for text, frames in zip(words.draw(rows, 4), ranks.tolist(), strict=True)
    ]


MAKERS = {"log lines": log_lines, "URLs": urls, "stack traces": stack_traces}


def write(folder: Path, data: str, shape: Shape) -> pa.Table:
    """Write the files of a table, and return it."""
    random = np.random.default_rng(11)
    words = Words(random, 100_000)
    files, groups, rows = shape
    folder.mkdir(parents=True)
    tables = []
    for number in range(files):
        texts = pa.array(MAKERS[data](random, words, groups * rows), pa.string())
        first = number * groups * rows
        tables.append(pa.table({"id": np.arange(first, first + len(texts)), "m": texts}))
        pq.write_table(tables[-1], folder / f"{number:05}.parquet", compression="zstd", row_group_size=rows)
    return pa.concat_tables(tables)


def questions(table: pa.Table, count: int) -> dict[str, list[Question]]:
    """Return questions about rare words, rare texts and a missing word."""
    step = max(1, table.num_rows // 32_768)
    # Not the rows from which `advise` draws its texts.
    sample = table["m"].take(pa.array(range(step // 2, table.num_rows, step))).to_pylist()
    texts, words = draw_needles(sample, count)
    return {
        "a rare word": [Question("a rare word", word, True) for word in words],
        "a rare text": [Question("a rare text", text, False) for text in texts],
        "no row": [Question("no row", f"missing{number:09}", True) for number in range(count)],
    }


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


class Ours:
    """An index of parsieve, with one kind of unit."""

    def __init__(self, folder: Path, index: Path, kind: str, unit: str, shape: Shape) -> None:
        self.table = ps.open_table(folder, index_location=index)
        self.unit_rows = shape[2] if unit == "row_group" else shape[1] * shape[2]
        self.units = shape[0] * shape[1] * shape[2] // self.unit_rows
        start = time.perf_counter()
        report = self.table.build_index("m", kind, unit=unit, progress=False)
        self.built = {"build_seconds": round(time.perf_counter() - start, 2), "index_bytes": report.bytes_stored}

    def plan(self, question: Question) -> ps.Plan:
        if question.is_word:
            return self.table.plan([("m", "has token", question.text)])
        return self.table.plan(f"contains(m, '{quoted(question.text)}')")

    def __call__(self, question: Question) -> list[int]:
        ids: list[int] = self.plan(question).to_arrow(["id"])["id"].to_pylist()
        return ids

    def units_read(self, question: Question) -> int:
        plan = self.plan(question)
        rows_of_file = self.units * self.unit_rows // len(self.table.plan().files)
        ranges = plan.row_ranges
        rows = sum(
            rows_of_file if ranges.get(file) is None else sum(count for _, count in ranges[file] or ())
            for file in plan.files
        )
        return rows // self.unit_rows


def quoted(text: str) -> str:
    return text.replace("'", "''")


def by_duckdb(folder: Path) -> Ask:
    connection: Any = duckdb.connect()

    def ask(question: Question) -> list[int]:
        test, text = ("regexp_matches", question.regex) if question.is_word else ("contains", question.text)
        query = f"SELECT id FROM '{folder}/*.parquet' WHERE {test}(m, ?) ORDER BY id"
        return [value for (value,) in connection.execute(query, [text]).fetchall()]

    return ask


def by_polars(folder: Path) -> Ask:
    def ask(question: Question) -> list[int]:
        text = question.regex if question.is_word else question.text
        condition = pl.col("m").str.contains(text, literal=not question.is_word)
        return sorted(pl.scan_parquet(f"{folder}/*.parquet").filter(condition).select("id").collect()["id"].to_list())

    return ask


def by_lance(table: pa.Table, folder: Path) -> tuple[Ask, dict[str, Any]]:
    dataset: Any = lance.write_dataset(table, str(folder))
    before, start = folder_bytes(folder), time.perf_counter()
    dataset.create_scalar_index("m", "NGRAM")
    built = {
        "build_seconds": round(time.perf_counter() - start, 2),
        "index_bytes": folder_bytes(folder) - before,
    }
    dataset = lance.dataset(str(folder))

    def ask(question: Question) -> list[int]:
        condition = f"contains(m, '{quoted(question.text)}')"
        if question.is_word:
            # The index answers `contains`, and the expression removes the other rows.
            condition += f" AND regexp_like(m, '{question.regex}')"
        return sorted(dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist())

    return ask, built


class ClickHouse:
    """A MergeTree table with a text index."""

    def __init__(self, session: Any, files: Path, name: str, tokenizer: str) -> None:
        self._session, self._name = session, name
        session.query(f"CREATE TABLE bench.{name} (id Int64, m String) ENGINE = MergeTree ORDER BY id")
        session.query(f"INSERT INTO bench.{name} SELECT id, m FROM file('{files}/*.parquet', Parquet)")
        session.query(f"OPTIMIZE TABLE bench.{name} FINAL")
        start = time.perf_counter()
        session.query(f"ALTER TABLE bench.{name} ADD INDEX by_text m TYPE text(tokenizer = {tokenizer})")
        session.query(f"ALTER TABLE bench.{name} MATERIALIZE INDEX by_text SETTINGS mutations_sync = 2")
        seconds = round(time.perf_counter() - start, 2)
        size = "sum(secondary_indices_compressed_bytes)"
        size = session.query(f"SELECT {size} FROM system.parts WHERE active AND table = '{name}'", "CSV")
        self.built = {"build_seconds": seconds, "index_bytes": int(str(size).strip())}

    def _select(self, question: Question) -> str:
        if question.is_word:
            condition = f"hasToken(m, '{question.text}')"
        else:
            # A backslash escapes a character of the pattern, and another one escapes that in the literal.
            pattern = re.sub(r"([\\%_])", r"\\\1", question.text).replace("\\", "\\\\").replace("'", "\\'")
            condition = f"m LIKE '%{pattern}%'"
        return f"SELECT id FROM bench.{self._name} WHERE {condition} ORDER BY id"

    def __call__(self, question: Question) -> list[int]:
        return [int(line) for line in str(self._session.query(self._select(question), "CSV")).split()]

    def granules(self, question: Question) -> tuple[int, int]:
        """Return the granules that a query reads, and all of them."""
        lines = str(self._session.query(f"EXPLAIN indexes = 1 {self._select(question)}", "TSV"))
        granules = re.findall(r"Granules: (\d+)/(\d+)", lines)
        return int(granules[-1][0]), int(granules[0][1])


def race(
    asked: dict[str, list[Question]], contenders: dict[str, Ask], count: int
) -> tuple[dict[str, dict[str, float]], dict[str, list[list[int]]]]:
    """Ask each contender each question in turn. Return the median milliseconds, and the rows of the answers."""
    milliseconds: dict[str, dict[str, float]] = {}
    rows: dict[str, list[list[int]]] = {}
    for kind, group in asked.items():
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        rows[kind] = []
        for question in group[:count]:
            answers = {}
            for name, ask in contenders.items():
                start = time.perf_counter()
                answers[name] = ask(question)
                seconds[name].append(time.perf_counter() - start)
            expected = answers["DuckDB alone"]
            assert all(answer == expected for answer in answers.values()), (question, answers)
            rows[kind].append(expected)
        milliseconds[kind] = {name: round(statistics.median(times) * 1e3, 2) for name, times in seconds.items()}
        print(kind, milliseconds[kind], flush=True)
    return milliseconds, rows


def mean(values: Sequence[float]) -> float:
    return round(statistics.fmean(values), 2)


def rounded(*values: float | None) -> list[float | None]:
    return [None if value is None else round(value, 4) for value in values]


def predictions(ours: dict[tuple[str, str], Ours], asked: dict[str, list[Question]]) -> dict[str, Any]:
    """Return the estimates of `advise` next to the figures of the indexes."""
    table = next(iter(ours.values())).table
    start = time.perf_counter()
    [advice] = table.advise("m")
    seconds = round(time.perf_counter() - start, 1)
    compared = []
    for estimate in advice.texts:
        index = ours[estimate.kind, estimate.unit]
        total = index.units * index.unit_rows
        shares = {
            kind: statistics.fmean(map(index.units_read, asked[kind])) / index.units
            for kind in ("a rare text", "a rare word")
        }
        compared.append(
            {
                "kind": estimate.kind,
                "unit": estimate.unit,
                "bits_per_row": rounded(estimate.bits_per_row, index.built["index_bytes"] * 8 / total),
                "a rare text": rounded(estimate.text_share, shares["a rare text"]),
                "a rare word": rounded(estimate.word_share, shares["a rare word"]),
            }
        )
    print(advice)
    return {"recommendation": advice.recommendation, "why": advice.why, "seconds": seconds, "estimates": compared}


def measure(folder: Path, data: str, shape: Shape, count: int, planned: int) -> dict[str, Any]:
    """Build all indexes of one kind of data, ask the questions, and return the results."""
    table = write(folder / "table", data, shape)
    asked = questions(table, planned)
    ours = {
        (kind, unit): Ours(folder / "table", folder / f"{kind}-{unit}", kind, unit, shape) for kind, unit in INDEXES
    }
    by_ngram, lance_built = by_lance(table, folder / "lance")
    session: Any = chdb.session.Session(str(folder / "clickhouse"))
    session.query("CREATE DATABASE bench ENGINE = Atomic")
    clickhouse = {
        name: ClickHouse(session, folder / "table", f"t{number}", tokenizer)
        for number, (name, tokenizer) in enumerate(TOKENIZERS.items())
    }
    named = {f"parsieve, {kind}, {unit.replace('_', ' ')}s": index for (kind, unit), index in ours.items()}
    indexes: dict[str, Ours | ClickHouse] = {**named, **clickhouse}
    contenders: dict[str, Ask] = {
        **named,
        "DuckDB alone": by_duckdb(folder / "table"),
        "Polars alone": by_polars(folder / "table"),
        LANCE: by_ngram,
        **clickhouse,
    }
    milliseconds, rows = race(asked, contenders, count)
    units = {}
    for kind, group in asked.items():
        units[kind] = {name: mean([index.units_read(one) for one in group[:count]]) for name, index in named.items()}
        units[kind] |= {
            name: mean([engine.granules(one)[0] for one in group[:count]]) for name, engine in clickhouse.items()
        }
    case = {
        "data": data,
        "files": shape[0],
        "row_group_rows": shape[2],
        "rows": table.num_rows,
        "table_bytes": folder_bytes(folder / "table"),
        "built": {name: index.built for name, index in indexes.items()} | {LANCE: lance_built},
        "units": {name: index.units for name, index in named.items()}
        | {name: engine.granules(asked["no row"][0])[1] for name, engine in clickhouse.items()},
        "units_read": units,
        "optimum": {
            kind: {
                name: mean([len({row // index.unit_rows for row in answer}) for answer in answers])
                for name, index in named.items()
            }
            for kind, answers in rows.items()
        },
        "rows_found": {kind: mean([len(answer) for answer in answers]) for kind, answers in rows.items()},
        "milliseconds": milliseconds,
        "advice": predictions(ours, asked),
    }
    session.close()
    print(case, flush=True)
    return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    count, planned = (3, 8) if arguments.smoke else (9, 40)
    # Lance takes seconds to build an index, however little data there is.
    shapes: dict[str, Shape] = {"log lines": (6, 2, 300)} if arguments.smoke else SHAPES
    cases = []
    for data, shape in shapes.items():
        with tempfile.TemporaryDirectory() as folder:
            cases.append(measure(Path(folder), data, shape, count, planned))
    if arguments.save:
        packages = ("pyarrow", "duckdb", "polars", "pylance", "chdb")
        record.save("text", cases, packages)


if __name__ == "__main__":
    main()
