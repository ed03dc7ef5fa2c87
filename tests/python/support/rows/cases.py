"""Compare the rows of plans of random folders with the rows that pyarrow reads and Python filters.

Everything follows from the seed of a folder, so a mismatch can be repeated.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pyarrow.types as pt

import parsieve as ps
from support.aging import wait_until_old
from support.rows import writers
from support.rows.conditions import Condition, paths_of, random_condition, tests_of, truths
from support.rows.languages import LANGUAGES, Language, UnsayableError
from support.rows.reading import UnreadableError, as_rows, comparable_rows, difference, has_twins, table_schema, take
from support.rows.tables import random_files
from support.rows.values import family

EQUAL, EITHER, REFUSED, NOT_UNDERSTOOD, UNSAYABLE, MISMATCH = (
    "equal",
    "an error where exact rows do not exist",
    "refused",
    "not understood",
    "no such literal",
    "MISMATCH",
)
# The partition column of some folders, and its text for null.
PARTITION = "partition"
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# How often each writer writes a folder. Starting ClickHouse takes longer than reading its files.
WEIGHTS = {"pyarrow": 12, "duckdb": 4, "polars": 4, "arrow-rs": 8, "fastparquet": 1, "clickhouse": 1}


class _Reads(logging.Handler):
    """Remembers how the files of the last read were read, from the debug log of the page reader."""

    last: logging.LogRecord | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record


_READS = _Reads()


@contextlib.contextmanager
def logged_reads() -> Iterator[None]:
    """Let `readers_used` see the reads of this block. Otherwise commands would print the debug log."""
    logger = logging.getLogger("parsieve.rows")
    level = logger.level
    logger.addHandler(_READS)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(_READS)


def readers_used(plan: ps.Plan) -> Mapping[str, int] | None:
    """Return how many files each reader has read in the last logged read, or None while all rows come from pyarrow."""
    record, _READS.last = _READS.last, None
    if record is None or not isinstance(record.args, tuple) or len(record.args) != 2:
        return None
    by_pages, files = (int(str(argument)) for argument in record.args)
    reasons = getattr(record, "reasons", None) or {"": files - by_pages}
    counts = Counter({"pages": by_pages})
    for reason, count in reasons.items():
        # The summary is by reason, and not by column.
        counts[f"pyarrow: {re.sub('^column .*?(:| is)', '', reason)}"] += count
    return +counts


@dataclass
class Outcome:
    """The result of one predicate and one projection."""

    result: str
    writer: str
    language: str = ""
    operators: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    projection: str = ""
    index: str = ""
    readers: tuple[str, ...] = ()
    num_rows: int = 0
    detail: str = ""


@dataclass
class Folder:
    """Files, and what pyarrow reads from them."""

    path: Path
    writer: str
    files: list[str]
    schema: pa.Schema
    # The rows of each file, with their own types.
    tables: list[pa.Table]
    index: str = "no index"
    # Why parsieve may refuse to read the rows, or "".
    excuse: str = ""
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, writer: str) -> Folder:
        """Read the files of a folder with pyarrow."""
        files = [str(path)] if path.is_file() else sorted(str(file) for file in path.rglob("*.parquet"))
        excuse = "names that differ only in case" if has_twins(files, table_schema(files[0])) else ""
        for file in files:
            excuse = excuse or _int96_limit(file)
        folder = cls(path, writer, files, table_schema(files[0]), [], excuse=excuse)
        texts = [folder.partition(file) for file in files]
        if any(Path(file).parent.name.startswith(f"{PARTITION}=") for file in files):
            is_number = any(texts) and all(text is None or text.isdigit() for text in texts)
            column = pa.field(PARTITION, pa.int32() if is_number else pa.string())
            # It takes precedence over a column of the files, which ClickHouse adds.
            others = [other for other in folder.schema if other.name != PARTITION]
            folder.schema = pa.schema([*others, column])
        folder.tables = [folder.read(file) for file in files]
        return folder

    def partition(self, file: str) -> str | None:
        """Return the value of the partition column in the path of a file."""
        name, _, value = Path(file).parent.name.partition("=")
        return unquote(value) if name == PARTITION and value != NO_VALUE else None

    def read(self, file: str) -> pa.Table:
        """Return the rows of a file with the value of the partition column."""
        rows = pq.ParquetFile(file).read()
        if PARTITION not in self.schema.names:
            return rows
        kind, text = self.schema.field(PARTITION).type, self.partition(file)
        value = None if text is None else int(text) if pt.is_int32(kind) else text
        rows = rows.select([name for name in rows.schema.names if name != PARTITION])
        return rows.append_column(PARTITION, pa.array([value] * rows.num_rows, kind))

    def sample(self) -> pa.Table:
        """Return rows with the types of the table, to choose values from."""
        for table in self.tables:
            with contextlib.suppress(UnreadableError):
                return as_rows(table, self.schema)
        return pa.table([pa.nulls(0, column.type) for column in self.schema], names=self.schema.names)

    def is_filtered_by_pyarrow(self) -> bool:
        """Return whether pyarrow itself can scan and filter the rows of all files, which depends on their types."""
        try:
            for file in self.files:
                pads.dataset(file, schema=self.schema).to_table()
                for batch in pads.dataset(file).to_batches():
                    rows = as_rows(pa.Table.from_batches([batch]), self.schema).combine_chunks()
                    for part in (batch, *rows.to_batches()):
                        part.filter(pa.array([number % 2 == 0 for number in range(part.num_rows)], pa.bool_()))
                        part.filter(pc.scalar(False))
        except (pa.ArrowException, UnreadableError):
            return False
        return True

    def matching(self, condition: Condition | None, language: Language) -> Iterator[tuple[pa.Table, bool]]:
        """Yield the matching rows of each file, and whether all of its rows can be rows of the table."""
        for table in self.tables:
            try:
                rows, is_exact = as_rows(table, self.schema), True
            except UnreadableError:
                rows, is_exact = table, False
            if condition is not None:
                mask = truths(condition, comparable_rows(table, self.schema), language.rules)
                rows = take(rows, [number for number, truth in enumerate(mask) if truth is True])
            yield rows, is_exact


def _int96_limit(path: str) -> str:
    """Return why parsieve may refuse the INT96 timestamps of a file, or ""."""
    schema = pq.ParquetFile(path).schema
    leaves = [schema.column(number) for number in range(len(schema))]
    leaves = [leaf for leaf in leaves if leaf.physical_type == "INT96"]
    if any("." in leaf.path for leaf in leaves):
        return "INT96 in a nested column"
    if leaves:
        micros = pq.read_table(path, columns=[leaf.path for leaf in leaves], coerce_int96_timestamp_unit="us")
        try:
            for column in micros.columns:
                column.cast(pa.timestamp("ns"))
        except pa.ArrowInvalid:
            return "INT96 beyond the years of nanoseconds"
    return ""


def write_folder(path: Path, random_: random.Random, writer: str) -> Folder | None:
    """Write the files of a random table; None if the writer cannot store any of its columns."""
    path.mkdir(parents=True)
    tables = random_files(random_)
    random_.shuffle(tables)
    shared = random_.getrandbits(64)
    partitions = random_.choice((("1", "2", NO_VALUE), ("a", "é", "a b"))) if random_.random() < 0.15 else ()
    written = []
    for number, table in enumerate(tables):
        place = path / f"{PARTITION}={quote(random_.choice(partitions))}" if partitions else path
        place.mkdir(exist_ok=True)
        written.append(writers.write_file(writer, table, str(place / f"{number}.parquet"), random_, shared))
    return Folder.of(path, writer) if any(table is not None for table in written) else None


def build_index(table: ps.Table, folder: Folder, random_: random.Random) -> None:
    """Build a random index of some columns, without columns whose types cannot be indexed."""
    leaves = paths_of(folder.schema)
    chosen = random_.sample(leaves, min(len(leaves), random_.randrange(1, 4)))
    kind = random_.choice(("sieve", "sieve", "sieve", "bloom", "both"))
    unit = random_.choice(("auto", "file", "row_group", "rows"))
    options: dict[str, Any] = {"kind": kind, "unit": unit, "pages": random_.random() < 0.5, "progress": False}
    while chosen:
        try:
            table.build_index([path for path, _ in chosen], **options)
        except ps.ParsieveError as error:
            folder.notes.append(f"no index of {family(chosen.pop()[1])}: {error}")
        else:
            folder.index = f"{kind} by {unit}"
            return


def add_filters(folder: Folder, random_: random.Random) -> None:
    """Add Bloom filters to a file."""
    path = random_.choice(folder.files)
    names = [name for (name, *below), _ in paths_of(pq.read_schema(path)) if not below]
    if names:
        with contextlib.suppress(ps.ParsieveError):
            ps.add_filters(path, columns=random_.sample(names, min(2, len(names))))
            folder.index += ", filters"


def projection_of(random_: random.Random, schema: pa.Schema, condition: Condition | None) -> tuple[str, Any]:
    """Return the form of a projection and its columns."""
    form = random_.choice(("all", "all", "some", "reordered", "none", "of the predicate", "nested", "repeated"))
    names = list(schema.names)
    if form == "some":
        chosen = set(random_.sample(names, random_.randrange(1, len(names) + 1)))
        return form, [name for name in names if name in chosen]
    if form == "reordered":
        return form, random_.sample(names, random_.randrange(1, len(names) + 1))
    if form == "none":
        return form, []
    if form == "repeated":
        return form, [random_.choice(names) for _ in range(3)]
    if form == "of the predicate" and condition is not None:
        return form, list(dict.fromkeys(test.path[0] for test in tests_of(condition)))
    nested = [column.name for column in schema if pt.is_nested(column.type)]
    if form == "nested" and nested:
        return form, [random_.choice(nested)]
    return "all", None


def run_folder(seed: str, root: Path, count: int, writer: str | None = None) -> list[Outcome]:
    """Write the folder of a seed, and compare the rows of some plans."""
    random_ = random.Random(seed)
    available = writers.installed()
    names = list(available)
    chosen = random_.choices(names, [WEIGHTS[name] for name in names])[0]
    chosen = writer or chosen
    folder = write_folder(root / "table", random_, chosen)
    if folder is None:
        return []
    return check_folder(folder, random_, count)


def run_file(path: Path, seed: str, indexes: Path, count: int) -> list[Outcome]:
    """Compare the rows of some plans of a file of another writer. The file does not change; its index is elsewhere."""
    random_ = random.Random(seed)
    folder = Folder.of(path, "other files")
    table = ps.open_table(str(path), index_location=str(indexes))
    if random_.random() < 0.7:
        build_index(table, folder, random_)
    return [check_plan(table, folder, random_) for _ in range(count)]


def check_folder(folder: Folder, random_: random.Random, count: int) -> list[Outcome]:
    """Compare the rows of some plans of a folder. It may get filters and an index first."""
    try:
        if random_.random() < 0.15:
            add_filters(folder, random_)
        if random_.random() < 0.9:
            # Versions of younger files are not certain, so that they are read in another way.
            wait_until_old(folder.path)
        table = ps.open_table(str(folder.path))
        if not table.schema.equals(folder.schema, check_metadata=True):
            detail = f"table schema:\n{table.schema.to_string()}\nexpected:\n{folder.schema.to_string()}"
            return [Outcome(MISMATCH, folder.writer, detail=detail)]
        if random_.random() < 0.5:
            build_index(table, folder, random_)
            if random_.random() < 0.15:
                _change_file(folder, random_)
    except Exception:
        return [Outcome(MISMATCH, folder.writer, detail=traceback.format_exc())]
    return [check_plan(table, folder, random_) for _ in range(count)]


def _change_file(folder: Folder, random_: random.Random) -> None:
    """Replace a file by its first rows, so that the index is stale."""
    number = random_.randrange(len(folder.files))
    rows = pq.ParquetFile(folder.files[number]).read()
    part = rows.slice(0, random_.randrange(rows.num_rows + 1))
    temporary = folder.path / ".new"
    try:
        pq.write_table(part, temporary, row_group_size=50)
        pq.ParquetFile(temporary).read()
    except (pa.ArrowException, OSError):
        # pyarrow cannot write and read every type.
        temporary.unlink(missing_ok=True)
        return
    temporary.replace(folder.files[number])
    folder.tables[number] = folder.read(folder.files[number])
    folder.index += ", stale"
    # Arrow's schema of the file may be lost, so compare with the schema of the new file.
    partitions = [column for column in folder.schema if column.name == PARTITION]
    others = [column for column in table_schema(folder.files[0]) if column.name != PARTITION]
    folder.schema = pa.schema([*others, *partitions])


def check_plan(table: ps.Table, folder: Folder, random_: random.Random) -> Outcome:
    """Compare the rows of one random plan with pyarrow's rows."""
    language = random_.choice(LANGUAGES)
    sample = folder.sample()
    leaves = [leaf for leaf in paths_of(folder.schema) if language.accepts(leaf[1])]
    condition = random_condition(random_, sample, leaves, language.ops, language.shape)
    if random_.random() < 0.03:
        condition = None
    form, columns = projection_of(random_, folder.schema, condition)
    tests = [] if condition is None else list(tests_of(condition))
    types = dict(paths_of(folder.schema))
    outcome = Outcome(
        EQUAL,
        folder.writer,
        language.name,
        tuple(sorted({test.op for test in tests})) or ("every row",),
        tuple(sorted({family(types[test.path]) for test in tests})),
        form,
        folder.index,
    )
    options: dict[str, Any] = {"row_groups": random_.choice((None, True, False)), "on_unknown": "error"}
    as_batches = random_.random() < 0.3
    try:
        request = {"where": None} if condition is None else language.render(condition, folder.schema, random_)
    except UnsayableError as error:
        outcome.result, outcome.detail = UNSAYABLE, str(error)
        return outcome
    about = f"{language.name}: {condition}, columns={columns}, {options}, index: {folder.index}"
    try:
        plan = table.plan(**request, **options)
    except ps.UnsupportedError as error:
        outcome.result, outcome.detail = NOT_UNDERSTOOD, str(error)
        return outcome
    except Exception:
        outcome.result, outcome.detail = MISMATCH, f"{about}\n{traceback.format_exc()}"
        return outcome
    expected, is_certain, problem = None, False, ""
    try:
        expected, is_certain = expected_rows(folder, condition, language, columns)
    except UnreadableError as error:
        problem = str(error)
    error_text, actual = "", None
    try:
        with logged_reads():
            actual = _read(plan, folder.schema, columns, as_batches)
    except ps.ParsieveError as error:
        error_text = f"{type(error).__name__}: {error}" + "".join(traceback.format_exception(error.__cause__))
        if not is_certain or folder.excuse or not folder.is_filtered_by_pyarrow():
            outcome.result, outcome.detail = EITHER, error_text
            return outcome
    except Exception:
        error_text = traceback.format_exc()
    outcome.readers = tuple(readers_used(plan) or ())
    if actual is None:
        outcome.result, outcome.detail = MISMATCH, f"{about}\n{error_text}"
    elif expected is None:
        # Files that are skipped may have values that are not of the table's types.
        outcome.result, outcome.detail = EITHER, problem
    else:
        outcome.num_rows = actual.num_rows
        detail = difference(actual, expected)
        if detail is not None:
            outcome.result, outcome.detail = MISMATCH, f"{about}\n{detail}\n{plan.explain()}"
    return outcome


def _read(plan: ps.Plan, schema: pa.Schema, columns: Sequence[str] | None, as_batches: bool) -> pa.Table:
    if not as_batches:
        return plan.to_arrow(columns)
    batches = list(plan.to_batches(columns))
    if not batches:
        return plan.to_arrow(columns)
    return pa.Table.from_batches(batches)


def expected_rows(
    folder: Folder, condition: Condition | None, language: Language, columns: Sequence[str] | None
) -> tuple[pa.Table, bool]:
    """Return the rows, and whether parsieve must return them.

    Raises `UnreadableError` if a matching row has no exact value of the table's type. If other rows have none, parsieve
    may read them and raise an error.
    """
    names = list(folder.schema.names if columns is None else columns)
    schema = pa.schema([folder.schema.field(name) for name in names])
    is_certain, parts = True, []
    for rows, is_exact in folder.matching(condition, language):
        is_certain &= is_exact
        parts.append(as_rows(rows, folder.schema))
    together = pa.concat_tables(parts)
    if not names:
        return together.select([]), is_certain
    return pa.table([together.column(name) for name in names], schema=schema), is_certain


def is_readable(path: Path) -> bool:
    """Return whether pyarrow can read a file, which may be encrypted or have types that pyarrow does not support."""
    try:
        return bool(pq.ParquetFile(path).read().num_rows >= 0)
    except (pa.ArrowException, OSError):
        return False
