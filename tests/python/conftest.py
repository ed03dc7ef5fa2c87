"""Settings for all tests: the import path, the Hypothesis profiles, the marks and the shared Spark session."""

import re
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# Results must not depend on luck or on the load of the machine: Hypothesis has no deadline, and generates the same
# examples in each run. `pytest --hypothesis-profile=others` searches for new examples.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("others", PATIENT)
settings.register_profile("same", PATIENT, derandomize=True, database=None)
settings.load_profile("same")

# PySpark leaves sockets for the garbage collector to close, and compares versions with distutils.
PYSPARK_WARNINGS = [
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
]


# Some libraries have no wheels for a Python without the GIL. The test files that import them are ignored there.
HAS_GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
ignored_files: list[Path] = []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore a file that imports a missing library, in a Python without the GIL."""
    if HAS_GIL or collection_path.suffix != ".py" or not _lacks_library(collection_path):
        return None
    ignored_files.append(collection_path)
    return True


def _lacks_library(path: Path) -> bool:
    for module in re.findall(r"^(?:import|from) ([\w.]+)", path.read_text(encoding="utf-8"), re.MULTILINE):
        if module.startswith("support."):
            helper = (Path(__file__).parent / module.replace(".", "/")).with_suffix(".py")
            if helper.exists() and _lacks_library(helper):
                return True
        elif find_spec(module.partition(".")[0]) is None:
            return True
    return False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip a test that imports a missing library, in a Python without the GIL."""
    try:
        yield
    except ModuleNotFoundError as error:
        if HAS_GIL or (error.name or "").startswith("parsieve"):
            raise
        pytest.skip(str(error))


def pytest_report_collectionfinish() -> str | None:
    """Report how many files are ignored."""
    return f"{len(ignored_files)} files import libraries that are not installed" if ignored_files else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests unless `-m` is given. Give Spark tests a longer timeout and their warning filters."""
    if not config.getoption("-m"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    for item in items:
        if item.get_closest_marker("spark"):
            # On a busy machine, starting Java and the first query of each table format take a long time.
            item.add_marker(pytest.mark.timeout(1200))
            if find_spec("pyspark") is None:
                item.add_marker(pytest.mark.skip(reason="PySpark is not installed here: make test-spark"))
        if Path(__file__).parent / "spark" in item.path.parents:
            for warning in PYSPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a session with the table formats that have jars for the installed PySpark.

    Its Iceberg catalog is named `iceberg`.
    """
    from support.spark_tables import new_session

    session = new_session(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    """Return an Iceberg catalog in a temporary folder, with the namespace `n`."""
    from pyiceberg.catalog.sql import SqlCatalog

    sql_catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "house").as_uri())
    sql_catalog.create_namespace("n")
    yield sql_catalog
    sql_catalog.close()
