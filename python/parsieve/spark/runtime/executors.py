"""Run a function for each of some tasks on Spark's executors, which get the tasks by broadcast.

No data is shuffled. Tasks write large results to the index's store under unique names, and return the names. So a task
can be retried, or run twice at the same time: only the names in the result that Spark accepts are used.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from parsieve._core import UnsupportedError
from parsieve.spark.runtime import workers
from parsieve.spark.runtime.gateway import check_session

Task = TypeVar("Task")
Result = TypeVar("Result")

DESCRIPTION = "spark.job.description"
# Several tasks for each core, so that all cores finish at about the same time.
TASKS_PER_CORE = 4
# The most bytes that a task reads, unless one file is larger.
TASK_BYTES = 512 << 20


def parallelism(spark: Any) -> int:
    """Return how many tasks Spark expects to run in parallel."""
    return max(1, int(context_of(spark).defaultParallelism))


def shares(spark: Any, sizes: Sequence[int | None]) -> list[tuple[int, int]]:
    """Divide files of these sizes into ranges of about the same number of bytes, one for each task."""
    # Opening a small file has a cost, too. Slices that have only log files have no size.
    weights = [max(size or 0, 1 << 20) for size in sizes]
    most = min(TASK_BYTES, sum(weights) // (TASKS_PER_CORE * parallelism(spark)) + 1)
    ranges: list[tuple[int, int]] = []
    start = range_bytes = 0
    for position, weight in enumerate(weights):
        if position > start and range_bytes + weight > most:
            ranges.append((start, position))
            start, range_bytes = position, 0
        range_bytes += weight
    return [*ranges, (start, len(weights))] if weights else []


def run(spark: Any, label: str, act: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Return the result of a module's function for each task, in order. Spark shows the job with the label."""
    if not tasks:
        return []
    from pyspark import cloudpickle

    context = context_of(spark)
    workers.check(context)
    payload = context.broadcast([cloudpickle.dumps(task) for task in tasks])

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(act(pickle.loads(payload.value[number])))
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([result])], names=["task", "result"])

    try:
        with _described(context, label), workers.own_python(context):
            numbers = spark.range(0, len(tasks), 1, len(tasks))
            rows = numbers.mapInArrow(work, "task long, result binary").collect()
    finally:
        payload.destroy()
    results = {row.task: row.result for row in rows}
    assert len(results) == len(rows) == len(tasks)
    return [pickle.loads(results[number]) for number in range(len(tasks))]


def context_of(spark: Any) -> Any:
    """Return the SparkContext of a session, or raise `UnsupportedError` for Spark Connect."""
    check_session(spark)
    try:
        return spark.sparkContext
    except Exception as error:
        raise UnsupportedError(
            "this session of Spark Connect has no SparkContext, which is needed to build an index; use a session on "
            "the cluster itself, or build the index without Spark, with parsieve.index.TableIndex"
        ) from error


@contextmanager
def _described(context: Any, label: str) -> Iterator[None]:
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, f"parsieve: {label}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
