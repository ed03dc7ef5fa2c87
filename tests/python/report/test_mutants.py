"""The random changes of `make mutants`, and the tests that it runs for each of them."""

from pathlib import Path

from support.programs.mutants import PACKAGE, CoveringTests, Mutant, mutants_of

SOURCE = """
def smallest(values: list[int], limit: int = 3) -> int | None:
    if not values and limit < 1:
        return None
    print(
        "smallest",
        limit + 1,
    )
    assert limit > 0, "not changed"
    return min(values)
"""


def test_changes_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "smallest.py"
    file.write_text(SOURCE)
    source = file.read_bytes()
    before = SOURCE.splitlines()
    lines = {line for mutant in mutants_of(file) for line in mutant.apply(source).decode().splitlines()} - {*before}
    assert "    if (not values or limit < 1):" in lines
    assert "    if (values) and limit < 1:" in lines
    assert "    if not values and (limit <= 1):" in lines
    assert "    if not values and limit < (2):" in lines
    assert "        (limit - 1)," in lines
    assert "    pass" in lines
    assert "    return None" in lines
    assert "def smallest(values: list[int], limit: int = (4)) -> int | None:" in lines
    assert not any("assert" in line for line in lines)


def test_tests_of_a_change() -> None:
    """A change can affect the tests that run a line of its statement, or that share a fixture which runs it."""
    seconds = {"a/test_x.py::slow": 2.0, "a/test_x.py::quick": 1.0, "a/test_y.py::one": 0.5, "b/test_z.py::one": 3.0}
    contexts = ["", "a", "a/test_x.py", "a/test_x.py::slow", "a/test_y.py::one", "b/test_z.py::one"]
    lines = {"sub/code.py": {"1": [0], "2": [3], "4": [0, 2], "6": [1], "8": [4, 5]}}
    tests = CoveringTests({"seconds": seconds, "contexts": contexts, "lines": lines})

    def tests_of(first: int, last: int, seconds: float = 10) -> list[str]:
        return tests.tests_of(Mutant(PACKAGE / "sub/code.py", first, 0, 0, "", range(first, last + 1)), seconds)

    quickest_first = ["a/test_y.py::one", "a/test_x.py::quick", "a/test_x.py::slow", "b/test_z.py::one"]
    assert tests_of(1, 1) == quickest_first  # runs during an import
    assert tests_of(3, 3) == quickest_first  # not known to run
    assert tests_of(2, 2) == ["a/test_x.py::slow"]
    assert tests_of(2, 3) == ["a/test_x.py::slow"]
    assert tests_of(4, 4) == ["a/test_x.py::quick", "a/test_x.py::slow"]
    assert tests_of(6, 6) == quickest_first[:3]
    assert tests_of(8, 8) == ["a/test_y.py::one", "b/test_z.py::one"]
    assert tests_of(6, 6, seconds=2) == quickest_first[:2]
    assert tests_of(2, 2, seconds=1) == ["a/test_x.py::slow"]
    assert tests.seconds(tests_of(4, 4)) == 3
