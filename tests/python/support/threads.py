"""Run jobs in threads."""

import threading
from collections.abc import Callable
from typing import Any


def run(*jobs: Callable[[], Any], seconds: float = 500) -> None:
    """Run jobs in parallel and raise their first error. Daemon threads let the process exit after a deadlock."""
    barrier, errors = threading.Barrier(len(jobs)), list[BaseException]()

    def start(job: Callable[[], Any]) -> None:
        barrier.wait(seconds)
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]
