"""The targets of the bench of rows, and whether a run meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from row_contenders import (
    ALONE,
    CHECK,
    EARLIER,
    EXACT,
    EXACT_TWO,
    FILES,
    LANCE,
    LOOKUP,
    OLD,
    OURS,
    PLAN,
    SCAN,
    SCAN_ALL,
)
from row_lakes import EVERYTHING, ID, PAGES, SINGLE, TIME, USER
from row_places import FRESH, IMPORT

OF_THE_FLOOR = {ID: 1.5, USER: 0.75, TIME: 0.75}
OF_LANCE = {ID: 3.0, USER: 10.0, TIME: 6.0}
MOST_MS_OF_AN_ID = 6.0
LEAST_TIMES_FASTER = 4.0
MOST_BYTES_OF_INDEX = 90_000_000
OF_THE_FLOOR_OF_KEYS = 1.5
MOST_ROUND_TRIPS, MOST_SECONDS_FAR, MOST_BYTES_FAR = 4, 0.150, 2 << 20
LEAST_OF_A_SCAN = 0.9
MOST_MIB = 64
MOST_MS_OF_A_PROCESS = 80

Milliseconds = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Judged:
    """A target, and the measurement that it is compared with. It is None if a contender did not run."""

    layout: str
    what: str
    measured: float | None
    target: float
    is_least: bool = False
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Return `met`, `missed`, or `not measured`."""
        if self.measured is None:
            return "not measured"
        is_met = self.measured >= self.target if self.is_least else self.measured <= self.target
        return "met" if is_met else "missed"

    def __str__(self) -> str:
        bound = f"{'>=' if self.is_least else '<='} {self.target:g} {self.unit}"
        measured = "-" if self.measured is None else f"{self.measured:,.4g} {self.unit}"
        return f"{self.verdict:<13} {self.what:<72} {measured:>12}  {bound:>12}  {self.layout}"

    def to_dict(self) -> dict[str, Any]:
        """Return the target for a record."""
        return asdict(self) | {"verdict": self.verdict}


def without_check(times: Milliseconds, name: str = OURS) -> float:
    """Return the milliseconds of plan and rows, without the check for new files, but with the one for a new index."""
    return times[name][PLAN] + times[name]["rows"] - times[CHECK][FILES]


def judge(cases: list[dict[str, Any]], is_full: bool) -> list[Judged]:
    """Return the targets of a run with their measurements. The size of the index has a target at full size only."""
    result: list[Judged] = []
    for case in cases:
        layout = case.get("layout", "")
        match case["case"]:
            case "rows" if case["kind"] in SINGLE:
                result += _single(case["kind"], case["milliseconds"], layout)
            case "rows" if case["kind"] == EVERYTHING:
                result += _everything(case["milliseconds"], layout)
            case "rows":
                result += _keys(case["kind"], case["milliseconds"], layout)
            case "lake" if is_full:
                size = case["index_bytes"] / 1e6
                result.append(Judged(layout, "bytes of the index", size, MOST_BYTES_OF_INDEX / 1e6, unit="MB"))
            case "far":
                result += _far(case, layout)
            case "memory":
                for kind, answer in case["answers"].items():
                    result.append(
                        Judged(layout, f"memory above the answer, {kind}", answer["mib_above"], MOST_MIB, unit="MiB")
                    )
            case "first row":
                above = case["milliseconds"][FRESH] - case["milliseconds"][IMPORT]
                result.append(
                    Judged(layout, "a fresh process above `import pyarrow`", above, MOST_MS_OF_A_PROCESS, unit="ms")
                )
    return result


def _ratio(times: Milliseconds, name: str, ours: float) -> float | None:
    """Return our time divided by that of another contender; None if it did not run."""
    return None if name not in times else ours / sum(times[name].values())


def _single(kind: str, times: Milliseconds, layout: str) -> Iterator[Judged]:
    rows, total = times[OURS]["rows"], without_check(times)
    yield Judged(layout, f"{kind}: rows / exact rows, one thread", _ratio(times, EXACT, rows), OF_THE_FLOOR[kind])
    if layout == PAGES:
        if kind == ID:
            yield Judged(layout, f"{kind}: plan and rows", total, MOST_MS_OF_AN_ID, unit="ms")
        for name in (OLD, EARLIER):
            if name == OLD or name in times:
                faster = None if name not in times else times[name]["rows"] / rows
                yield Judged(layout, f"{kind}: rows of {name} / rows", faster, LEAST_TIMES_FASTER, is_least=True)
        yield Judged(layout, f"{kind}: plan and rows / {LANCE}", _ratio(times, LANCE, total), OF_LANCE[kind])
    with_check = sum(times[OURS].values())
    yield Judged(layout, f"{kind}: check, plan and rows / DuckDB alone", _ratio(times, ALONE, with_check), 1.0)


def _keys(kind: str, times: Milliseconds, layout: str) -> Iterator[Judged]:
    ours = sum(times[LOOKUP].values()) if LOOKUP in times else without_check(times)
    for name in (EXACT, EXACT_TWO):
        what = f"{kind}: in one call / {name.removeprefix('floor: ')}"
        yield Judged(layout, what, _ratio(times, name, ours), OF_THE_FLOOR_OF_KEYS)
    scans = [sum(times[name].values()) for name in (SCAN, ALONE) if name in times]
    yield Judged(layout, f"{kind}: in one call / the fastest full scan", ours / min(scans), 1.0)


def _everything(times: Milliseconds, layout: str) -> Iterator[Judged]:
    ours = sum(times[OURS].values())
    for name in (SCAN, SCAN_ALL):
        if name in times:
            faster = sum(times[name].values()) / ours
            yield Judged(layout, f"{EVERYTHING}: speed / {name}", faster, LEAST_OF_A_SCAN, is_least=True)


def _far(case: Mapping[str, Any], layout: str) -> Iterator[Judged]:
    total = case["plan and rows"]
    yield Judged(layout, "far: dependent round trips", total["round_trips"], MOST_ROUND_TRIPS, unit="")
    yield Judged(layout, "far: time", total["seconds"] * 1e3, MOST_SECONDS_FAR * 1e3, unit="ms")
    yield Judged(layout, "far: bytes", total["bytes"] / 2**20, MOST_BYTES_FAR / 2**20, unit="MiB")
