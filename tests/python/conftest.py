"""Lets every test import the independent models beside this file (`oracle`, `disk`, ...), and use one Spark session."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# Whether a change is good must not be a matter of luck, nor of how long a busy machine takes to draw a table: a run
# takes the examples of the run before. `pytest --hypothesis-profile=others` looks for new ones.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("others", PATIENT)
settings.register_profile("same", PATIENT, derandomize=True, database=None)
settings.load_profile("same")

# PySpark leaves sockets to the collector of garbage, and reads versions with distutils.
PYSPARK_WARNINGS = [
    "ignore:unclosed <socket:ResourceWarning",
    "ignore:distutils Version classes are deprecated:DeprecationWarning",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow unless a mark is asked for; give what starts a Spark session its time and its warnings."""
    if not config.getoption("-m"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    for item in items:
        if item.get_closest_marker("spark"):
            # Starting Java and the first query of each lake take long where other work runs beside them.
            item.add_marker(pytest.mark.timeout(1200))
            if find_spec("pyspark") is None:
                item.add_marker(pytest.mark.skip(reason="PySpark is not installed here: make test-spark"))
        if Path(__file__).parent / "spark" in item.path.parents:
            for warning in PYSPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with the lakes that the installed PySpark has jars for; `iceberg` is its Iceberg catalog."""
    import parsieve.spark as pss

    session = pss.session(
        master="local[2]",
        memory="1g",
        warehouse=tmp_path_factory.mktemp("warehouse"),
        config={
            "spark.ui.showConsoleProgress": False,
            "spark.sql.session.timeZone": "UTC",
            # Queries of some milliseconds are not worth the second compiler of Java, nor its threads. Without it, Java
            # has 48 MiB for compiled code, throws some away in the course of all tests, and compiles it again.
            "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
            "-XX:+UseSerialGC -XX:MetaspaceSize=256m -Xms1g",
            # A machine may stand still for longer than Spark waits for a process beside it, and nothing is wrong.
            "spark.network.timeout": "1200s",
            "spark.python.authenticate.socketTimeout": "600s",
        },
    )
    yield session
    session.stop()
