"""Check that Spark's executors can import parsieve, and use the driver's Python in local sessions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from parsieve._core import ParsieveError, __version__

# The applications whose executors can run parsieve, each with the Python that the executors run.
_checked: set[tuple[str, str]] = set()
_lock = threading.Lock()


class Worker(NamedTuple):
    """A Python that runs tasks, with its version of parsieve, or the error of importing it."""

    executable: str
    python: str
    parsieve: str | None
    error: str = ""


@contextmanager
def own_python(context: Any) -> Iterator[None]:
    """Run functions that are passed to Spark in this context on the driver's Python, if the session is local.

    By default, Spark takes `python3` from PATH, which is another Python if the driver's environment is not activated.
    A choice of the user, in the session or by PYSPARK_PYTHON, stays in effect.
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
    """Check the executors, and run functions that are passed to Spark in this context on the right Python."""
    try:
        context = spark.sparkContext
    except Exception:
        # With Spark Connect, the executors belong to the server and cannot be checked from here.
        yield
        return
    check(context)
    with own_python(context):
        yield


def check(context: Any) -> None:
    """Raise `ParsieveError`, with a message of one line, unless the executors can import this version of parsieve.

    Runs a small job on an executor, once for each application.
    """
    with own_python(context):
        key = str(context.applicationId), str(context.pythonExec)
        if key in _checked:
            return
        try:
            [worker] = context.parallelize([0], 1).mapPartitions(_import_parsieve()).collect()
        except Exception as error:
            raise ParsieveError(_message(f"no task runs on {key[1]}: {_cause(error)}")) from None
    if (problem := _problem(Worker(*worker))) is not None:
        raise ParsieveError(_message(problem))
    with _lock:
        _checked.add(key)


def _import_parsieve() -> Any:
    # A nested function is pickled with its code, so that it runs on executors without the package.
    def import_parsieve(_: Any) -> Any:
        import sys

        python = "{}.{}".format(*sys.version_info[:2])
        try:
            import parsieve

            return [(sys.executable, python, parsieve.__version__, "")]
        except Exception as error:
            return [(sys.executable, python, None, f"{type(error).__name__}: {error}")]

    return import_parsieve


def _problem(worker: Worker) -> str | None:
    driver = "{}.{}".format(*sys.version_info[:2])
    if worker.parsieve is None:
        return f"{worker.executable} cannot import parsieve ({worker.error})"
    if worker.python != driver:
        return f"{worker.executable} is Python {worker.python}, but the driver has Python {driver}"
    if worker.parsieve != __version__:
        return f"{worker.executable} has parsieve {worker.parsieve}, but the driver has {__version__}"
    return None


def _message(problem: str) -> str:
    return (
        f"Spark's executors cannot run parsieve: {problem}. Before the session starts, set PYSPARK_PYTHON (or "
        f"spark.pyspark.python) to a Python that has it, here {sys.executable}; pss.session() does that for you"
    )


def _cause(error: Exception) -> str:
    """Return the most specific line of an error of Spark."""
    lines = [line.strip() for line in str(error).splitlines()]
    specific = [line for line in lines if "PYTHON_VERSION_MISMATCH" in line or "Cannot run program" in line]
    exceptions = [line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError", "Caused by:"))]
    return (specific or exceptions[-1:] or lines[:1] or [type(error).__name__])[0]


def of_path() -> Worker:
    """Return the Python that executors on this machine use by default, in sessions that parsieve did not start."""
    executable = os.environ.get("PYSPARK_PYTHON", "python3")
    code = (
        "import sys, parsieve; print(sys.executable, '%d.%d' % sys.version_info[:2], parsieve.__version__, sep='\\n')"
    )
    try:
        process = subprocess.run([executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Worker(executable, "", None, str(error))
    if process.returncode:
        return Worker(executable, "", None, (process.stderr.strip().splitlines() or ["it failed"])[-1])
    return Worker(*process.stdout.splitlines()[:3])


def problem_of_path() -> tuple[str, str]:
    """Return the default Python of executors, and why it cannot run parsieve; "" if it can."""
    worker = of_path()
    return worker.executable, _problem(worker) or ""
