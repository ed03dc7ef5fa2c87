"""One function for each of some tasks on Spark's executors: what it needs goes there once, small answers come back.

No shuffle is asked for: whatever is large lies in the index's store, under names that nobody else has. So a task that
is tried again, or twice at once, does no harm: only names in the answer that Spark counts are ever used.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from parsieve._core import UnsupportedError
from parsieve.spark.runtime import workers

Task = TypeVar("Task")
Answer = TypeVar("Answer")

DESCRIPTION = "spark.job.description"
# More reading tasks than cores, so that they end together; but no more than this needs.
TASKS_PER_CORE = 4
TASK_BYTES = 512 << 20


def parallelism(spark: Any) -> int:
    """How many tasks the executors run at once, as far as Spark knows."""
    return max(1, int(context_of(spark).defaultParallelism))


def shares(spark: Any, sizes: Sequence[int | None]) -> list[tuple[int, int]]:
    """Neighbours among files of these sizes, of about the same bytes for each task that reads them."""
    # A slice of log files only has no size; opening one costs something too.
    weights = [max(size or 0, 1 << 20) for size in sizes]
    most = min(TASK_BYTES, sum(weights) // (TASKS_PER_CORE * parallelism(spark)) + 1)
    found: list[tuple[int, int]] = []
    start = held = 0
    for at, weight in enumerate(weights):
        if at > start and held + weight > most:
            found.append((start, at))
            start, held = at, 0
        held += weight
    return [*found, (start, len(weights))] if weights else []


def run(spark: Any, label: str, act: Callable[[Task], Answer], tasks: Sequence[Task]) -> list[Answer]:
    """What `act`, a function of a module, answers to each task, in order. Spark shows the job by its label."""
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
                answer = pickle.dumps(act(pickle.loads(payload.value[number])))
                yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([answer])], names=["task", "answer"])

    try:
        with _described(context, label), workers.own_python(context):
            one_each = spark.range(0, len(tasks), 1, len(tasks))
            rows = one_each.mapInArrow(work, "task long, answer binary").collect()
    finally:
        payload.destroy()
    answers = {row.task: row.answer for row in rows}
    assert len(answers) == len(rows) == len(tasks)
    return [pickle.loads(answers[number]) for number in range(len(tasks))]


def context_of(spark: Any) -> Any:
    """The SparkContext of a session."""
    try:
        return spark.sparkContext
    except Exception as error:
        raise UnsupportedError(
            "this session of Spark Connect has no SparkContext, which building an index needs: run it in a session of "
            "the cluster's own, or without Spark by parsieve.index.TableIndex"
        ) from error


@contextmanager
def _described(context: Any, label: str) -> Iterator[None]:
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, f"parsieve: {label}")
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
