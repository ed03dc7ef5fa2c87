"""An index built by Spark's executors, in as many parts as there are keys for, and committed once by the driver.

```text
slices ── read: keys, sort ── runs in the store ── ranges of keys: merge, build ── segment files ── shares ── root
          one task each                            one task each, whole pages                      driver
```

Rows are read by our own adapters, slice by slice, on the executors: so deletes, logs and deletion vectors mean what
they mean to whoever asks the index, a slice is bound to the very version that was read, and one that cannot be read
costs only itself. The runs go by way of the index's store and not through a shuffle: what Spark reads again after a
failure may have changed since, and a file under a name of its own has not.

A part begins and ends where pages of the whole index end, which a task finds out alone from the keys behind a cut
(`Builder::border`). Nothing per key comes to the driver, and the segments are those of a build in one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve import _core
from parsieve.index.bloom import build as bloom
from parsieve.index.bloom.shelf import SHELF_BYTES
from parsieve.index.log import bindings
from parsieve.index.log.columns import field_id_of, path_of
from parsieve.index.log.commit import ColumnState, Log, Part, TableState
from parsieve.index.log.publish import put_root
from parsieve.index.scan.runs import gather
from parsieve.index.scan.spill import Room, Sections
from parsieve.index.settling import settle, unsettled, warn_of
from parsieve.index.sieve.build import Effort, bindable, commit_build, readable, tokens_of
from parsieve.index.table_index import TableIndex
from parsieve.index.view import View
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import AsOf, ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field
from parsieve.spark.build import kinds, runs
from parsieve.spark.build.bloom import Executors
from parsieve.spark.build.runs import Run
from parsieve.spark.runtime import executors
from parsieve.spark.tables import lake_and_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Column = str | Sequence[str]
# What a task of the executors holds of a table's rows.
MEMORY = 256 << 20
# Bytes of runs that are worth a task of their own: some ten million pairs.
PART_BYTES = 32 << 20
# Each part tells the driver the least and greatest key of each location: some twenty bytes.
MOST_SPANS = 4_000_000


def build_index(
    spark: SparkSession,
    table: Any,
    columns: Column | Sequence[Column],
    kind: str = "auto",
    *,
    as_of: AsOf = None,
    index_location: Any = None,
    storage_options: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    parts: int | None = None,
    memory: int = MEMORY,
    fpp: float = 0.01,
) -> View:
    """Build an index of some columns on Spark's executors, and replace their existing index.

    The executors read the table and write the index, so they must be able to access both, and the package `parsieve`
    must be installed there. The index becomes visible only when it is complete.

    Args:
        spark: your own session, or one from `pss.session()`. Its settings and views do not change.
        table: a path or URI, a name in Spark's catalog, a table from `open_table`, or an argument of `open_table`.
        columns: one column or several; for a field of a struct, the path with dots.
        kind: as for `Table.build_index`: "sieve" answers points, ranges and prefixes; "bloom" stores a filter for each
            file, which answers only points, takes fewer bytes, and rejects keys that do not exist; "both" builds both,
            with one scan for each; "auto" builds for each column what `advise` recommends, which may be nothing.
        as_of: a version, snapshot id, instant or time of the table.
        index_location: where to store the index; None is the default place.
        storage_options: options to access the object store of the table and of the index.
        options: options of a Sieve index, as for `SieveOptions`.
        parts: how many parts to build a Sieve index in; None depends on the number of rows. The result is the same.
        memory: bytes of rows that a reading task holds before it writes a run, or of filters that it writes together.
        fpp: the false positive rate of the filters of a Bloom index.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(1000).write.parquet(folder)
    >>> pss.build_index(spark, folder, "id").version
    1
    """
    if kind not in kinds.KINDS:
        raise ValueError(f'the kinds of index are "sieve", "bloom", "both" and "auto", not {kind!r}')
    if kind == "bloom" and (options is not None or parts is not None):
        raise ValueError('options and parts apply to a Sieve index only, not to kind="bloom"')
    if parts is not None and parts < 1:
        raise ValueError("parts must be at least 1")
    lake, store = lake_and_store(spark, table, index_location, storage_options)
    log = Log(store)
    paths = paths_of(columns)
    snapshot = settle(lake, lake.snapshot(as_of))
    warn_of(unsettled(snapshot), f"the index in {log.store}")
    chosen = kinds.choose(lake, snapshot, paths, kind)
    sieves = [path for path, one in chosen.items() if one in ("sieve", "both")]
    blooms = [path for path, one in chosen.items() if one in ("bloom", "both")]
    # Of both nothing is built where one cannot be.
    bloom.fields_of(snapshot.schema, blooms)
    done = None
    if sieves:
        built = build_at(spark, log, lake, snapshot, sieves, options=options, parts=parts, memory=memory)
        done = built.commit
    if blooms:
        Effort(memory).room()
        hands = Executors(spark, lake, log.store, min(SHELF_BYTES, memory))
        done = bloom.build_by(log, snapshot, blooms, hands, fpp)
    return kinds.report(log, snapshot, done, chosen)


def paths_of(columns: Column | Sequence[Column]) -> list[ColumnPath]:
    """Columns by their paths, each once."""
    several = [columns] if isinstance(columns, str) else list(columns)
    if not several:
        raise ValueError("name at least one column to index")
    return list(dict.fromkeys(path_of(column) for column in several))


def build_at(
    spark: Any,
    log: Log,
    lake: Lake,
    snapshot: Snapshot,
    paths: Sequence[ColumnPath],
    *,
    options: Mapping[str, Any] | None = None,
    parts: int | None = None,
    memory: int = MEMORY,
) -> View:
    """Index some columns of a snapshot, and commit them."""
    Effort(memory).room()
    fields = {path: leaf_field(snapshot.schema, path) for path in paths}
    for one in fields.values():
        # What cannot be indexed is refused before anything is read.
        _core.SieveAxis(one.type)
    chosen = _core.SieveOptions(**(options or {}))
    newest = log.newest()
    version = newest.version + 1 if newest else 1
    tokens = tokens_of(snapshot)
    slices = bindable(snapshot)
    table = TableState.of(snapshot)
    found = read(spark, log.store, lake, slices, {path: one.type for path, one in fields.items()}, memory)
    written = [run for one in found.values() for run in one.runs]
    try:
        if slices and len(found[paths[0]].failed) == len(slices):
            raise found[paths[0]].failed[0]
        jobs = [
            Job(log.store, fields[path].type, tuple(found[path].runs), len(slices), dict(options or {}), path)
            for path in paths
        ]
        built = build(spark, jobs, parts)
        chain = bindings.write(log.store, (), {}, readable(tokens, slices, found[paths[0]].failed))
        places = [(piece.partition, piece.group) for piece in slices]
        made = {}
        for job, pieces in zip(jobs, built, strict=True):
            axis, one = _core.SieveAxis(job.type), found[job.path]
            files = tuple(part for piece in pieces for part in piece.files)
            root, border = _core.join_sieve_shares(
                axis,
                [piece.share for piece in pieces],
                instant=version,
                locations=places,
                sides=list(zip(one.nulls, one.nans, one.unread, strict=True)),
                options=chosen,
                file=len(files),
            )
            assert not border
            base = put_root(log.store, axis, root, files, version)
            made[job.path] = ColumnState(job.path, field_id_of(fields[job.path]), job.type, table, chain, base)
        done = commit_build(log, table, made, newest.columns if newest else {})
        return View(log.store, done, TableIndex(log.store).refresh)
    finally:
        runs.delete(log.store, written)


@dataclass
class Found:
    """What executors read of one column: its runs, and what has no key, by number of the location."""

    runs: list[Run] = field(default_factory=list)
    nulls: list[int] = field(default_factory=list)
    nans: list[int] = field(default_factory=list)
    unread: list[bool] = field(default_factory=list)
    failed: dict[int, Exception] = field(default_factory=dict)


@dataclass(frozen=True)
class _Reading:
    store: Store
    lake: Lake
    slices: Sequence[Slice]
    first: int
    columns: Mapping[ColumnPath, pa.DataType]
    memory: int


def read(
    spark: Any,
    store: Store,
    lake: Lake,
    slices: Sequence[Slice],
    columns: Mapping[ColumnPath, pa.DataType],
    memory: int = MEMORY,
) -> dict[ColumnPath, Found]:
    """Read some columns of some slices on the executors into runs; a slice's place is the number of its location."""
    tasks = [
        _Reading(store, lake, slices[start:end], start, columns, memory)
        for start, end in executors.shares(spark, [piece.size for piece in slices])
    ]
    names = ", ".join(".".join(path) for path in columns)
    found = {path: Found() for path in columns}
    for answer in executors.run(spark, f"read {names} of {lake.uri}", _read, tasks):
        for path, one in answer.items():
            whole = found[path]
            whole.failed |= {len(whole.nulls) + number: error for number, error in one.failed.items()}
            whole.runs += one.runs
            whole.nulls += one.nulls
            whole.nans += one.nans
            whole.unread += one.unread
    return found


def _read(task: _Reading) -> dict[ColumnPath, Found]:
    """On an executor: some slices into runs."""
    columns = [(path, _core.SieveAxis(kind)) for path, kind in task.columns.items()]
    with Effort(task.memory).room() as room:
        gathered = gather(
            task.lake,
            task.slices,
            columns,
            room,
            memory=task.memory,
            threads=1,
            advance=lambda _: None,
            first=task.first,
        )
        return {
            path: Found(runs.write(task.store, one), one.nulls, one.nans, one.unread, one.failed)
            for (path, _), one in zip(columns, gathered, strict=True)
        }


@dataclass(frozen=True)
class Job:
    """A column to be built, or on an executor the part of it that lies between two borders of pages."""

    store: Store
    type: pa.DataType
    runs: tuple[Run, ...]
    num_locations: int
    options: Mapping[str, Any]
    path: ColumnPath
    # The last key of the page before, as an ordinal; the first key, and the first key of the page behind.
    after: bytes | None = None
    low: bytes | None = None
    high: bytes | None = None
    file: int = 0

    def parts(self) -> int:
        """In how many parts it is worth building."""
        return min(
            -(-sum(run.size for run in self.runs) // PART_BYTES), max(8, MOST_SPANS // max(1, self.num_locations))
        )

    def start(self, feeds: int, *, partition: bool = False) -> _core.SieveBuild:
        """A builder of this part."""
        return _core.SieveBuild(
            _core.SieveAxis(self.type),
            self.num_locations,
            num_runs=feeds,
            options=_core.SieveOptions(**self.options),
            partition=partition,
            file=self.file,
            low=self.low,
            high=self.high,
            after=self.after,
        )


@dataclass(frozen=True)
class Built:
    """A part that was built: what it shares with the others, and its segment file if it has keys."""

    share: bytes
    files: tuple[Part, ...]


def build(spark: Any, jobs: Sequence[Job], parts: int | None = None) -> list[list[Built]]:
    """Build columns on the executors; for each its parts in order of their keys."""
    scouts: list[Job] = []
    # What was sampled serves here, and need not go to every task.
    samples, jobs = jobs, [replace(job, runs=tuple(replace(run, sample=()) for run in job.runs)) for job in jobs]
    for job, sample in zip(jobs, samples, strict=True):
        wanted = parts or job.parts()
        scouts += [replace(job, low=cut) for cut in runs.cuts(sample.runs, wanted)] if wanted > 1 else []
    borders: dict[ColumnPath, set[tuple[bytes, bytes]]] = {job.path: set() for job in jobs}
    for scout, border in zip(scouts, executors.run(spark, "cut the keys into parts", _border, scouts), strict=True):
        if border is not None:
            borders[scout.path].add(border)
    tasks = [task for job in jobs for task in _parts(job, sorted(borders[job.path]))]
    label = f"build {', '.join('.'.join(job.path) for job in jobs)}"
    built: dict[ColumnPath, list[Built]] = {job.path: [] for job in jobs}
    for task, answer in zip(tasks, executors.run(spark, label, _build, tasks), strict=True):
        built[task.path].append(answer)
    return [built[job.path] for job in jobs]


def _parts(job: Job, borders: Sequence[tuple[bytes, bytes]]) -> list[Job]:
    """A part before the first border, and one behind each of them: none of several is without a key."""
    ends: list[bytes | None] = [*(first for _, first in borders), None]
    starts: list[tuple[bytes | None, bytes | None]] = [(None, None), *borders]
    return [
        replace(job, after=after, low=low, high=high, file=file)
        for file, ((after, low), high) in enumerate(zip(starts, ends, strict=True))
    ]


def _border(task: Job) -> tuple[bytes, bytes] | None:
    """On an executor: where the first page after a cut ends for certain, if one does."""
    feeds = runs.pieces(task.store, task.runs, task.low, None)
    build = task.start(len(feeds), partition=True)
    while (hungry := build.step()) is not None and build.border() is None:
        build.feed(hungry, next(feeds[hungry], None))
    return build.border()


def _build(task: Job) -> Built:
    """On an executor: the segments of a part."""
    feeds = runs.pieces(task.store, task.runs, task.low, task.high)
    build = task.start(len(feeds))
    # Segments are smaller than the runs they are made of, by far; what is not goes to the disk.
    with Room(2 * PART_BYTES) as room:
        sections = Sections(room)
        while (hungry := build.step()) is not None:
            build.feed(hungry, next(feeds[hungry], None))
            sections.add(build.take())
        share, last = build.finish_pages()
        sections.add(last)
        size = sections.size()
        if not size:
            return Built(share, ())
        part = Part(unique("segments", "segments"), size)
        task.store.put(part.name, sections.finish())
        return Built(share, (part,))
