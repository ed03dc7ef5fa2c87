"""The parts of the package import each other in one direction, and no modules import each other in a circle."""

from __future__ import annotations

import structure

IMPORTS = structure.all_imports()


def test_each_part_has_a_place_in_the_order() -> None:
    assert {structure.part_of(name) for name in structure.modules()} == set(structure.ORDER)


def test_parts_import_only_parts_below_them() -> None:
    upward = [f"{one.importer} imports {one.module} in line {one.line}" for one in structure.upward(IMPORTS)]
    assert not upward


def test_no_modules_import_each_other_in_a_circle() -> None:
    edges = {(one.importer, one.module) for one in IMPORTS if one.importer}
    assert not structure.cycles(edges)


def test_no_folders_of_a_part_import_each_other_in_a_circle() -> None:
    assert not structure.folder_cycles(IMPORTS)


def test_a_wrong_import_is_noticed() -> None:
    wrong = structure.Import("io.replace", "index.view", 1, is_deferred=True, is_for_types=False)
    assert structure.upward([wrong]) == [wrong]
    back = structure.Import("index.view", "io.replace", 1, is_deferred=False, is_for_types=False)
    assert structure.cycles({(wrong.importer, wrong.module), (back.importer, back.module)}) == [
        {"io.replace", "index.view"}
    ]
    inner = [
        structure.Import("lake.delta.log", "lake.rows.columns", 1, is_deferred=False, is_for_types=False),
        structure.Import("lake.rows.streams", "lake.delta.table", 1, is_deferred=False, is_for_types=False),
    ]
    assert structure.folder_cycles(inner) == [{"lake.delta", "lake.rows"}]


def test_folders_are_small() -> None:
    assert structure.crowded(structure.PACKAGE, ".py")[0] <= 11
    assert structure.crowded(structure.ROOT / "src", ".rs")[0] <= 12
