"""The rows of a plan as a DataFrame: the files that it keeps, at its snapshot, or a refusal where they are no more."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.io.ranges import RangeReader
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake.base import Slice
from parsieve.lake.hudi.properties import while_settled
from parsieve.plan.plan import Plan
from parsieve.predicate.expr import Always
from parsieve.predicate.normalize import normalize
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.conditions import Types, ids_of
from parsieve.spark.scan import delta, file_index, hudi, iceberg
from parsieve.spark.scan.kept_files import comparable, is_listed, kept
from parsieve.spark.scan.read import address, plain, storage_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(plan: Plan, spark: SparkSession, name: str | None = None) -> DataFrame:
    """What `Plan.to_spark` gives."""
    if not hasattr(spark, "_jvm"):
        raise UnsupportedError("Spark Connect shows no file lists to its clients; plan.files works with any engine")
    read = {"parquet": _folder, "hudi": _hudi, "delta": _delta, "iceberg": _iceberg}[plan._lake.format]
    found = read(plan, spark, name)
    missing = [column for column in plan.schema.names if column not in found.columns]
    if missing:
        raise _moved(plan, f"Spark finds no column {missing[0]!r} in it")
    return found.select(*("`" + column.replace("`", "``") + "`" for column in plan.schema.names))


@dataclass
class Chosen:
    """The files of a plan, as a `Keep` that knows nothing else."""

    paths: frozenset[str]
    plan: Plan
    # What Spark did not list of them.
    missing: frozenset[str] = frozenset()

    def __call__(self, listed: Sequence[str], where: Filter) -> set[str]:
        """Those of the paths that the plan keeps."""
        self.missing = self.paths - set(map(comparable, listed))
        return {path for path in listed if comparable(path) in self.paths}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chosen) and self.paths == other.paths

    def __hash__(self) -> int:
        return hash(self.paths)


def _moved(plan: Plan, why: str) -> ConflictError:
    state = "" if plan._snapshot.id is None else f" at {plan._snapshot.id}"
    return ConflictError(f"{plan._lake.uri} is no longer as it was planned{state}: {why}; plan again")


def _pieces(plan: Plan) -> list[Slice]:
    return [plan._snapshot.slices[number] for number in plan._kept]


def _chosen(plan: Plan) -> Chosen:
    return Chosen(frozenset(comparable(piece.path) for piece in _pieces(plan) if piece.path), plan)


def _text(plan: Plan, types: Types) -> str:
    return "true" if normalize(plan._expr) == Always(True) else types.text(plan._expr)


def _folder(plan: Plan, spark: Any, name: str | None) -> Any:
    """The files by Spark's own list, without those that came since."""
    pieces = _pieces(plan)
    try:
        now = {piece.path: piece for piece in plan._lake.snapshot().slices}
    except FileNotFoundError:
        now = {}
    for piece in pieces:
        found = now.get(piece.path)
        if found is None:
            raise _moved(plan, f"{piece.path} is gone")
        # A file that was proven when it was planned, and changed just now, was written since.
        if piece.token and not found.same_rows(piece):
            raise _moved(plan, f"{piece.path} was written anew")
    whole = plain(spark, plan._lake)
    chosen = _chosen(plan)
    chosen(file_index.listed(whole), Filter((), None))
    if chosen.missing:
        raise UnsupportedError(f"Spark does not list {min(chosen.missing)} below {plan._lake.uri}; use to_arrow")
    return file_index.prune(whole, chosen, plan._lake.uri).where(_text(plan, Types(whole.schema)))


def _hudi(plan: Plan, spark: Any, name: str | None) -> Any:
    """The file groups as of the plan's instant, if they are all there in the versions that were planned."""
    if plan._snapshot.id is None:
        raise UnsupportedError(f"{plan._lake.uri} has no commit yet that Spark could be asked for")
    instant = str(plan._snapshot.id)
    storage = storage_of(plan._lake)
    whole = hudi.load(spark, address(plan._lake), storage, instant)
    listed = while_settled(storage, lambda: file_index.listed(whole))
    there = {_group(path): path for path in listed}
    for piece in plan._snapshot.slices:
        path = there.pop(_group(f"{plan._lake.uri}/{piece.partition}/{piece.group}"), None)
        same = piece.path is None or (path is not None and comparable(path) == comparable(piece.path))
        if path is None or not same or not is_listed(plan._lake, piece, path, instant):
            raise _moved(plan, f"Spark finds another version of {piece.partition}/{piece.group}, or none")
    if there:
        raise _moved(plan, f"Spark finds {min(there.values())} besides")
    left = frozenset(map(comparable, kept(listed, plan, instant)))
    return file_index.prune(whole, Chosen(left, plan), plan._lake.uri).where(_text(plan, Types(whole.schema)))


def _group(path: str) -> tuple[str, str]:
    """The partition and the id of a file group, by any of its files."""
    folder, _, file = comparable(path).rpartition("/")
    return folder.rstrip("/"), file.lstrip(".").partition("_")[0]


def _delta(plan: Plan, spark: Any, name: str | None) -> Any:
    from py4j.protocol import Py4JJavaError

    folder, version = address(plan._lake), plan._snapshot.id
    assert isinstance(version, int)
    _refuse_gone(plan)
    try:
        state = delta.State(spark, folder, version)
    except Py4JJavaError as error:
        raise _moved(plan, f"Spark cannot read that version: {_first_line(error)}") from error
    chosen = _chosen(plan)
    found = state.read(chosen, _text(plan, Types(state.schema)))
    if chosen.missing:
        raise _moved(plan, f"{min(chosen.missing)} is no part of that version")
    return found


def _iceberg(plan: Plan, spark: Any, name: str | None) -> Any:
    source, number = name or address(plan._lake), plan._snapshot.id
    whole = iceberg.load(spark, source)
    native = iceberg.table_of(whole)
    if number is None:
        # Nothing was written to it yet.
        return whole.where("false")
    assert isinstance(number, int)
    snapshot = native.snapshot(number)
    if snapshot is None:
        raise _moved(plan, "the snapshot was expired")
    _refuse_gone(plan)
    latest, ids = native.currentSnapshot(), ids_of(str(_parser(spark).toJson(native.schema())))
    chosen, as_of = _chosen(plan), None
    if int(latest.snapshotId()) != number or [name for name in plan.schema.names if name not in whole.columns]:
        # Another snapshot has the columns of its time.
        whole, as_of = iceberg.load(spark, source, number), number
    found = iceberg.pruned(spark, source, whole, chosen, _text(plan, Types(whole.schema, ids)), as_of, latest)
    if chosen.missing:
        raise _moved(plan, f"{min(chosen.missing)} is no part of that snapshot")
    return found


def _parser(spark: Any) -> Any:
    return spark._jvm.org.apache.iceberg.SchemaParser


def _refuse_gone(plan: Plan) -> None:
    """`ConflictError` where a file that is kept was removed, as old versions' files are in the end."""

    def is_gone(piece: Slice) -> bool:
        try:
            RangeReader(plan._lake.open_base(piece)).close()
        except FileNotFoundError:
            return True
        return False

    pieces = [piece for piece in _pieces(plan) if piece.path]
    if not pieces:
        return
    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(pieces)), "parsieve-read") as pool:
        for piece, gone in zip(pieces, pool.map(is_gone, pieces), strict=True):
            if gone:
                raise _moved(plan, f"{piece.path} is gone")


def _first_line(error: Exception) -> str:
    return str(getattr(error, "java_exception", error)).splitlines()[0]
