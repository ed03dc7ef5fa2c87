"""Plans whose files are handed out in parts. They never change, and are forgotten after a while."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from parsieve.server.protocol.errors import no_plan, no_task
from parsieve.server.protocol.scan_tasks import PlannedFiles


@dataclass(frozen=True)
class _Stored:
    table: Any
    planned: PlannedFiles
    expires: float


class PlanStore:
    """The plans of a server, by their IDs. Threads may share it.

    A plan belongs to a table and a caller. To others it does not exist.
    """

    def __init__(
        self,
        page_size: int = 2000,
        most_plans: int = 1000,
        seconds: float = 3600,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page_size = page_size
        self._most_plans = most_plans
        self._seconds = seconds
        self._clock = clock
        self._plans: OrderedDict[str, _Stored] = OrderedDict()
        self._lock = Lock()

    def answer(self, table: Any, planned: PlannedFiles) -> dict[str, Any]:
        """Return the answer to a plan request: all files, or the names of the parts."""
        plan_id = self._add(table, planned)
        return self._completed(plan_id, planned)

    def plan(self, table: Any, plan_id: str) -> dict[str, Any]:
        """Return the answer to the request that made a plan, again."""
        stored = self._find(table, plan_id)
        if stored is None:
            raise no_plan(plan_id)
        return self._completed(plan_id, stored.planned)

    def tasks(self, table: Any, task: str) -> dict[str, Any]:
        """Return the files of one part of a plan."""
        plan_id, _, page = task.partition(".")
        stored = self._find(table, plan_id)
        if stored is None or not page.isascii() or not page.isdigit() or len(page) > 9:
            raise no_task(task)
        start = int(page) * self._page_size
        if start >= len(stored.planned):
            raise no_task(task)
        return stored.planned.page(start, self._page_size)

    def drop(self, table: Any, plan_id: str) -> None:
        """Forget a plan."""
        if self._find(table, plan_id) is None:
            raise no_plan(plan_id)
        with self._lock:
            self._plans.pop(plan_id, None)

    def _completed(self, plan_id: str, planned: PlannedFiles) -> dict[str, Any]:
        completed = {"status": "completed", "plan-id": plan_id}
        if len(planned) <= self._page_size:
            return completed | planned.page(0, self._page_size)
        pages = range(-(-len(planned) // self._page_size))
        return completed | {"plan-tasks": [f"{plan_id}.{page}" for page in pages]}

    def _add(self, table: Any, planned: PlannedFiles) -> str:
        plan_id, now = secrets.token_hex(16), self._clock()
        with self._lock:
            while self._plans and (
                len(self._plans) >= self._most_plans or next(iter(self._plans.values())).expires <= now
            ):
                self._plans.popitem(last=False)
            self._plans[plan_id] = _Stored(table, planned, now + self._seconds)
        return plan_id

    def _find(self, table: Any, plan_id: str) -> _Stored | None:
        with self._lock:
            stored = self._plans.get(plan_id)
        return stored if stored is not None and stored.table == table and stored.expires > self._clock() else None
