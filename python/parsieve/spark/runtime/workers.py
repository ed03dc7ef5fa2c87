"""The Python of Spark's executors: the driver's own for our jobs in a local session, and checked before the first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from parsieve._core import ParsieveError, __version__

# Applications whose executors can run our code, each with the Python that it was asked for.
_checked: set[tuple[str, str]] = set()
_lock = threading.Lock()


class Worker(NamedTuple):
    """A Python that runs tasks, and its version of parsieve or why there is none."""

    executable: str
    python: str
    parsieve: str | None
    error: str = ""


@contextmanager
def own_python(context: Any) -> Iterator[None]:
    """Let functions that are handed to Spark meanwhile run on the driver's own Python, where it is on this machine.

    Spark takes `python3` from PATH unless it is told otherwise, which is another one wherever the environment of the
    driver was not activated. What the user chose, for a session or by PYSPARK_PYTHON, is left alone.
    """
    is_chosen = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    if is_chosen or context.pythonExec != "python3" or not str(context.master).startswith("local"):
        yield
        return
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = "python3"


@contextmanager
def ready(spark: Any) -> Iterator[None]:
    """Check the executors, and let functions that are handed to Spark meanwhile run on the right Python."""
    try:
        context = spark.sparkContext
    except Exception:
        # Spark Connect, whose server's executors are nobody's here.
        yield
        return
    check(context)
    with own_python(context):
        yield


def check(context: Any) -> None:
    """Raise `ParsieveError`, in one line, unless the executors can import this version of parsieve.

    A small job asks an executor, once for each application.
    """
    with own_python(context):
        key = str(context.applicationId), str(context.pythonExec)
        if key in _checked:
            return
        try:
            [worker] = context.parallelize([0], 1).mapPartitions(_look()).collect()
        except Exception as error:
            raise ParsieveError(_refusal(f"no task runs on {key[1]}: {_cause(error)}")) from None
    if (wrong := _wrong(Worker(*worker))) is not None:
        raise ParsieveError(_refusal(wrong))
    with _lock:
        _checked.add(key)


def _look() -> Any:
    # Within another function, it goes to the executor by its code: there may be no module to import it from.
    def look(_: Any) -> Any:
        import sys

        python = "{}.{}".format(*sys.version_info[:2])
        try:
            import parsieve

            return [(sys.executable, python, parsieve.__version__, "")]
        except Exception as error:
            return [(sys.executable, python, None, f"{type(error).__name__}: {error}")]

    return look


def _wrong(worker: Worker) -> str | None:
    mine = "{}.{}".format(*sys.version_info[:2])
    if worker.parsieve is None:
        return f"{worker.executable} cannot import parsieve ({worker.error})"
    if worker.python != mine:
        return f"{worker.executable} is Python {worker.python}, and the driver's is {mine}"
    if worker.parsieve != __version__:
        return f"{worker.executable} has parsieve {worker.parsieve}, and the driver has {__version__}"
    return None


def _refusal(wrong: str) -> str:
    return (
        f"Spark's executors cannot run parsieve: {wrong}. Before the session starts, set PYSPARK_PYTHON (or "
        f"spark.pyspark.python) to a Python that has it, here {sys.executable}; pss.session() does that by itself"
    )


def _cause(error: Exception) -> str:
    """The line of an error of Spark that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if "PYTHON_VERSION_MISMATCH" in line or "Cannot run program" in line]
    named = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError", "Caused by:"))]
    return (told or named[-1:] or lines[:1] or [type(error).__name__])[0]


def of_path() -> Worker:
    """Return the Python that executors of a session of the user's own take on this machine."""
    executable = os.environ.get("PYSPARK_PYTHON", "python3")
    code = (
        "import sys, parsieve; print(sys.executable, '%d.%d' % sys.version_info[:2], parsieve.__version__, sep='\\n')"
    )
    try:
        done = subprocess.run([executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Worker(executable, "", None, str(error))
    if done.returncode:
        return Worker(executable, "", None, (done.stderr.strip().splitlines() or ["it fails"])[-1])
    return Worker(*done.stdout.splitlines()[:3])


def wrong_of_path() -> tuple[str, str]:
    """Return that Python, and why it would not do; "" where it does."""
    worker = of_path()
    return worker.executable, _wrong(worker) or ""
