"""The random changes of `make mutants`, and the tests that it runs for each of them."""

import json
from pathlib import Path

from support.programs.mutants import PACKAGE, CoveringTests, Mutant, mutants_of
from support.programs.rust_mutants import read_outcomes

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
    own, other = "tests/python/index/test_x.py", "tests/python/plan/test_y.py"
    seconds = {f"{own}::f[1]": 2.0, f"{own}::f[0]": 1.0, f"{own}::g": 3.0, f"{other}::f": 0.5}
    contexts = ["", "tests/python/index", own, f"{own}::f[0]", f"{own}::g", f"{other}::f"]
    lines = {
        "index/code.py": {"1": [0], "2": [3], "4": [0, 2], "6": [1], "8": [4, 5]},
        "index/few.py": {"1": [0], "2": [5]},
    }
    tests = CoveringTests([{"seconds": seconds, "contexts": contexts, "lines": lines}])

    def tests_of(first: int, last: int, seconds: float = 10, path: str = "index/code.py") -> list[str]:
        mutant = Mutant(PACKAGE / path, first, 0, 0, "", range(first, last + 1))
        return tests.tests_of(mutant, seconds)

    # The quickest parameters of each function come first, then the others, then the tests of other folders.
    in_order = [f"{own}::f[0]", f"{own}::g", f"{own}::f[1]", f"{other}::f"]
    assert tests_of(1, 1) == in_order  # runs during an import
    assert tests_of(3, 3) == in_order  # not known to run
    assert tests_of(1, 1, path="index/few.py") == [f"{other}::f"]  # another line of the file runs in this test
    assert tests_of(1, 1, path="index/none.py") == in_order
    assert tests_of(2, 2) == tests_of(2, 3) == [f"{own}::f[0]"]
    assert tests_of(4, 4) == tests_of(6, 6) == in_order[:3]
    assert tests_of(8, 8) == [f"{own}::g", f"{other}::f"]
    assert tests_of(6, 6, seconds=4) == in_order[:2]
    assert tests_of(2, 2, seconds=0.5) == [f"{own}::f[0]"]
    assert tests.seconds(in_order) == 6.5


def test_only_changes_whose_tests_ran_count(tmp_path: Path) -> None:
    assert read_outcomes(tmp_path) == []
    summaries = ("CaughtMutant", "MissedMutant", "Timeout", "Unviable", "Failure")
    outcomes = [{"scenario": {"Mutant": {"name": name}}, "summary": name} for name in summaries]
    folder = tmp_path / "mutants.out"
    folder.mkdir()
    (folder / "outcomes.json").write_text(
        json.dumps({"outcomes": [{"scenario": "Baseline", "summary": "Success"}, *outcomes]})
    )
    assert read_outcomes(tmp_path) == [("CaughtMutant", True), ("MissedMutant", False), ("Timeout", True)]
