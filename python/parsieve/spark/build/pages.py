"""Tasks that read the maps of pages of slices on Spark's executors. The driver stores them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from parsieve._core import FileMap
from parsieve.index.pages.build import try_read_map
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.base import Lake, Slice
from parsieve.spark.runtime import executors


@dataclass(frozen=True)
class MapTask:
    """Slices whose maps to read."""

    lake: Lake
    slices: Sequence[Slice]


def read_maps(spark: Any, lake: Lake, slices: Sequence[Slice]) -> Iterator[FileMap | Exception]:
    """Yield the maps of some slices, or why they have none. Tasks read the footers."""
    count = max(1, -(-len(slices) // (executors.TASKS_PER_CORE * executors.parallelism(spark))))
    tasks = [MapTask(lake, slices[start : start + count]) for start in range(0, len(slices), count)]
    for answer in executors.run(spark, f"map the pages of {lake.uri}", read, tasks):
        for result in answer:
            yield FileMap.from_bytes(result) if isinstance(result, bytes) else result


def read(task: MapTask) -> list[bytes | Exception]:
    """Return the encoded maps of some slices, on an executor."""

    def read_one(file_slice: Slice) -> bytes | Exception:
        result = try_read_map(task.lake, file_slice)
        return result if isinstance(result, Exception) else result.to_bytes()

    return list(map_in_threads(read_one, task.slices, REQUESTS_AT_ONCE, "parsieve-index"))
