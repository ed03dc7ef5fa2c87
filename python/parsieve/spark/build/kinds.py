"""Choose the kind of index for each column, and its units."""

from __future__ import annotations

from collections.abc import Sequence

from parsieve.index.advice import advise_auto
from parsieve.index.build.kinds import content_of
from parsieve.index.build.unit_choice import check_unit, choose_unit
from parsieve.index.log.commit import Layout
from parsieve.index.scan.units import Unit
from parsieve.index.text.build import units_for
from parsieve.lake.base import ColumnPath, Lake, Snapshot


def choose(
    lake: Lake,
    snapshot: Snapshot,
    paths: Sequence[ColumnPath],
    kind: str,
    *,
    unit: str,
    fpp: float | None = 0.02,
    keep_keys: bool = False,
) -> tuple[dict[ColumnPath, str], dict[ColumnPath, Layout], dict[ColumnPath, Unit]]:
    """Return the kind of index of each column, the layouts of the Sieve indexes, and the units of the text indexes.

    The choices are the same as those of `Table.build_index`. "auto" reads a sample of the files on the driver. If there
    are too few files for a sample, its kind is "sieve".
    """
    check_unit(unit)
    advice = advise_auto(lake, snapshot, paths) if kind == "auto" else {}
    kinds = dict.fromkeys(paths, "sieve" if kind == "auto" else kind)
    kinds |= {path: column.recommendation for path, column in advice.items()}
    units = {path: column.unit for path, column in advice.items()} if unit == "auto" else {}
    layouts = {
        path: Layout(units.get(path) or choose_unit(lake, snapshot, path, unit), fpp, keep_keys)
        for path, choice in kinds.items()
        if choice in ("sieve", "both")
    }
    texts = [path for path, choice in kinds.items() if content_of(choice) is not None]
    advised = {path: units[path] for path in texts if path in units}
    return kinds, layouts, units_for(lake, snapshot, texts, unit) | advised
