"""`build_index`: build the index of a table on Spark's executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from parsieve.filters.options import checked_fpp
from parsieve.index.accounts import Account, disagreements
from parsieve.index.bloom import build as bloom
from parsieve.index.build.kinds import by_content, check_kind, content_of
from parsieve.index.log.columns import column_paths, paths_of
from parsieve.index.log.commit import Commit, TableState
from parsieve.index.log.log import Log
from parsieve.index.pages import maintain
from parsieve.index.sieve import build as sieve
from parsieve.index.text.build import build as build_text
from parsieve.index.text.build import check_columns
from parsieve.observe.logs import INDEX, SPARK, place
from parsieve.predicate.expressions.expression import index_name
from parsieve.spark.build import kinds
from parsieve.spark.build.executor import MEMORY, SparkExecutor
from parsieve.spark.tables import lake_and_writable_store, view_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from parsieve.index.view import View
    from parsieve.lake.base import AsOf

Column = str | Sequence[str]
# The rates of the two kinds of index unless the caller chooses one.
SIEVE_FPP, BLOOM_FPP, TEXT_FPP = 0.02, 0.01, 0.02


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
    fpp: float | Literal["auto"] | None = "auto",
    unit: str = "auto",
    keep_keys: bool = False,
    pages: bool | None = None,
) -> View:
    """Build an index of some columns on Spark's executors, and replace their existing index.

    The executors read the table and write the index, so they must be able to access both, and the package `parsieve`
    must be installed there. The index becomes visible only when it is complete.

    Args:
        spark: your own session, or one from `pss.session()`. Its settings and views do not change.
        table: a path or URI, a name in Spark's catalog, a table from `open_table`, or an argument of `open_table`.
        columns: one column or several; for a field of a struct, the path with dots.
        kind: as for `Table.build_index`. "sieve" answers queries for keys, intervals and prefixes. "bloom" stores a
            filter for each file. It answers only queries for keys. "both"
            builds both, with one scan for each. "text" answers queries for text inside strings, and "words" for whole
            words. "auto" builds for each column what `advise` recommends, which may be nothing.
        as_of: a version, snapshot id, instant or time of the table.
        index_location: where to store the index; None is the default place.
        storage_options: options to access the object store of the table and of the index.
        options: options of a Sieve index, as for `SieveOptions`.
        parts: the number of parts in which a Sieve index is built. None chooses it by the number of rows. It does not
            change the result.
        memory: how many bytes of rows a task holds before it writes a run, or how many bytes of filters before it
            writes them.
        fpp: the false positive rate. For a Sieve index, how many units a query for a missing key may keep on average,
            as for `Table.build_index`. None stores no fingerprints. For a Bloom, text or words index, the rate of its
            filters. "auto" is 0.01 for a Bloom index, and 0.02 for others.
        unit: what a Sieve, text or words index can skip, as for `Table.build_index`: "file", "row_group", "rows" or
            "auto".
        keep_keys: whether a Sieve index stores all keys, so that a compaction need not read the table again.
        pages: whether the index also has a map of the pages of all files, as for `Table.build_index`.

    >>> import tempfile, parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> folder = tempfile.mkdtemp() + "/t"
    >>> spark.range(1000).write.parquet(folder)
    >>> pss.build_index(spark, folder, "id").version
    1
    """
    check_kind(kind)
    has_filters_only = kind == "bloom" or content_of(kind) is not None
    if has_filters_only and (options is not None or parts is not None):
        raise ValueError(f"options and parts apply to a Sieve index only, not to kind={kind!r}")
    if parts is not None and parts < 1:
        raise ValueError("parts must be at least 1")
    if has_filters_only and (fpp is None or keep_keys):
        raise ValueError(f"fpp=None and keep_keys apply to a Sieve index only, not to kind={kind!r}")
    rate = fpp if fpp is None or fpp == "auto" else checked_fpp(fpp)
    sieve_rate = SIEVE_FPP if rate == "auto" else rate
    # None means no fingerprints. A Bloom index never has any, so its rate is the default.
    bloom_rate = BLOOM_FPP if rate is None or rate == "auto" else rate
    lake, store = lake_and_writable_store(spark, table, index_location, storage_options)
    log = Log(store)
    account = Account()
    snapshot = account.settle(lake, lake.snapshot(as_of))
    named = [columns] if isinstance(columns, str) else columns
    names = [name if isinstance(name, str) else tuple(name) for name in named]
    paths = paths_of(column_paths(names, snapshot.schema))
    chosen, layouts, text_units = kinds.choose(
        lake, snapshot, paths, kind, unit=unit, fpp=sieve_rate, keep_keys=bool(keep_keys)
    )
    sieves = [path for path, choice in chosen.items() if choice in ("sieve", "both")]
    blooms = [path for path, choice in chosen.items() if choice in ("bloom", "both")]
    # Check the Bloom columns first, so that nothing is built if one of them cannot be.
    bloom.fields_of(snapshot.schema, blooms)
    check_columns(snapshot.schema, list(text_units))
    executor = SparkExecutor(spark, store, memory, options, parts, account=account)
    version = None
    if sieves:
        version = sieve.build(log, lake, snapshot, sieves, executor, layouts=layouts)
    if blooms:
        version = bloom.build(log, lake, snapshot, blooms, executor, fpp=bloom_rate)
    text_rate = TEXT_FPP if rate is None or rate == "auto" else rate
    for content, texts in by_content(chosen).items():
        version = build_text(log, lake, snapshot, texts, executor, units=text_units, fpp=text_rate, content=content)
    if version is not None:
        version = maintain.ensure(log, lake, snapshot, executor, pages).version
    account.warn(store)
    for path, choice in chosen.items():
        SPARK.info("build index of %s in %s: %s", index_name(path), place(lake.uri), choice)
    # If "auto" built nothing, return the existing index, or an empty one.
    empty = Commit(0, "", None, 0, "none", TableState.of(snapshot), {}, {})
    view = view_of(log, version or log.newest() or empty)
    for note in disagreements(view, sieves):
        INDEX.warning("the index in %s: %s", store, note)
    return view
