"""The examples of the docstrings are true."""

import doctest
import inspect
from typing import Any

import pytest

import parsieve as ps


def public() -> dict[str, Any]:
    """The public names, without errors and the version, and the methods and properties of public classes."""
    names = [name for name in ps.__all__ if not name.startswith("_") and not name.endswith("Error")]
    found = {name: getattr(ps, name) for name in names}
    members = {
        f"{name}.{member}": getattr(thing, member) if isinstance(value, staticmethod) else value
        for name, thing in found.items()
        if inspect.isclass(thing) and not issubclass(thing, tuple)
        for member, value in vars(thing).items()
        if not member.startswith("_")
    }
    return found | members


def documented() -> dict[str, Any]:
    return {name: value for name, value in public().items() if ">>>" in (inspect.getdoc(value) or "")}


@pytest.mark.parametrize("name", documented())
def test_examples(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented()[name]) or "", {}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_everything_public_has_an_example() -> None:
    """What only tells a fact speaks for itself, and functions show what they give."""
    facts = {"instruction_sets", "FileFilters", "FilterRange", "FileFilters.close"}
    facts |= {"AddedFilter", "RewriteReport", "Finding"}
    facts |= {"Table", "Plan", "Keep", "Skip", "Plan.files", "Plan.row_groups", "Plan.kept", "Plan.skipped"}
    # Its tests are those that need Spark.
    facts |= {"Plan.to_spark"}
    told = {"FileFilters.column_type", "FileFilters.ranges", "FileFilters.filter"}
    things = {name for name, value in public().items() if not (inspect.isdatadescriptor(value))}
    assert len(things) >= 20
    assert things - facts - told <= documented().keys()


def test_everything_public_has_a_docstring() -> None:
    assert all(inspect.getdoc(value) for value in public().values())
