"""Run the examples in docstrings, and check that public objects have docstrings and examples."""

import doctest
import inspect
from typing import Any

import pytest

import parsieve as ps


def public() -> dict[str, Any]:
    """Return public objects by name, with methods and properties of public classes, without errors and the version."""
    names = [name for name in ps.__all__ if not name.startswith("_") and not name.endswith("Error")]
    exported = {name: getattr(ps, name) for name in names}
    members = {
        f"{name}.{member}": getattr(thing, member) if isinstance(value, staticmethod) else value
        for name, thing in exported.items()
        if inspect.isclass(thing) and not issubclass(thing, tuple)
        for member, value in vars(thing).items()
        if not member.startswith("_")
    }
    return exported | members


def documented() -> dict[str, Any]:
    return {name: value for name, value in public().items() if ">>>" in (inspect.getdoc(value) or "")}


@pytest.mark.parametrize("name", documented())
def test_examples_give_the_documented_output(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(documented()[name]) or "", {}, name, None, None)
    messages: list[str] = []
    result = doctest.DocTestRunner().run(test, out=messages.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(messages)


def test_everything_public_has_an_example() -> None:
    """Classes that only hold data, and a few methods, need no example."""
    without_example = {"instruction_sets", "FileFilters", "FilterRange", "FileFilters.close"}
    without_example |= {"AddedFilter", "RewriteReport", "Finding"}
    without_example |= {"Table", "Plan", "Keep", "Skip", "Plan.files", "Plan.row_groups", "Plan.kept", "Plan.skipped"}
    # The tests with Spark cover this method.
    without_example |= {"Plan.to_spark"}
    without_example |= {"FileFilters.column_type", "FileFilters.ranges", "FileFilters.filter"}
    names = {name for name, value in public().items() if not (inspect.isdatadescriptor(value))}
    assert len(names) >= 20
    assert names - without_example <= documented().keys()


def test_everything_public_has_a_docstring() -> None:
    assert all(inspect.getdoc(value) for value in public().values())
