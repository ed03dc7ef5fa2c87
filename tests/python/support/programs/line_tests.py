"""A pytest plugin that records which tests run each line of a folder, and how long each test takes.

`mutants.py` uses it to run only the tests that a change can affect. Set `LINE_TESTS_SOURCE` to the folder and
`LINE_TESTS_OUTPUT` to the path of the record, a JSON file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

SOURCE = os.environ["LINE_TESTS_SOURCE"]
OUTPUT = Path(os.environ["LINE_TESTS_OUTPUT"])

_coverage = coverage.Coverage(data_file=None, source=[SOURCE], config_file=False)
_coverage.start()
# A context is the id of a test, or of the file or folder whose tests share a fixture.
_contexts = [""]
_seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the lines that run in a test."""
    _enter(item.nodeid)
    result = yield
    _leave()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """Record the lines that run in a shared fixture for all tests that can use it."""
    is_shared = fixturedef.scope != "function"
    if is_shared:
        _enter(request.node.nodeid.removeprefix("."))
    result = yield
    if is_shared:
        _leave()
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the time of a phase of a test."""
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0) + report.duration


def pytest_sessionfinish() -> None:
    """Write the record."""
    _coverage.stop()
    data = _coverage.get_data()
    contexts = sorted(data.measured_contexts())
    numbers = {context: number for number, context in enumerate(contexts)}
    lines = {
        os.path.relpath(path, SOURCE): {
            line: [numbers[name] for name in names] for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    OUTPUT.write_text(json.dumps({"seconds": _seconds, "contexts": contexts, "lines": lines}))


def _enter(context: str) -> None:
    _contexts.append(context)
    _coverage.switch_context(context)


def _leave() -> None:
    _contexts.pop()
    _coverage.switch_context(_contexts[-1])
