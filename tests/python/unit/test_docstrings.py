"""The examples of the docstrings are true."""

import doctest
import inspect
from typing import Any

import pytest

from parsieve import _core


def documented() -> dict[str, Any]:
    found = {name: value for name, value in vars(_core).items() if callable(value)}
    members = {f"BloomFilter.{name}": member for name, member in vars(_core.BloomFilter).items()}
    return {name: value for name, value in (found | members).items() if ">>>" in (inspect.getdoc(value) or "")}


WRONG = pytest.mark.xfail(
    strict=True, reason="src/python/functions.rs: the docstring says 1316032, the exact size is 1316160"
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=WRONG if name == "optimal_num_bytes" else ()) for name in documented()]
)
def test_examples(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented()[name]) or "", {}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_everything_public_has_an_example() -> None:
    """Errors, operators and properties speak for themselves."""
    public = {name for name in vars(_core) if not name.startswith("_") and not name.endswith("Error")} - {
        "instruction_sets"
    }
    methods = {
        f"BloomFilter.{name}"
        for name, member in vars(_core.BloomFilter).items()
        if not name.startswith("_") and not inspect.isgetsetdescriptor(member)
    }
    assert len(methods) >= 8
    assert (public | methods) <= documented().keys()


def test_everything_public_has_a_docstring() -> None:
    objects = [value for name, value in vars(_core).items() if not name.startswith("_")]
    objects += [member for name, member in vars(_core.BloomFilter).items() if not name.startswith("_")]
    assert all(inspect.getdoc(value) for value in objects)
