"""`parsieve index`: each command prints its result as text or JSON."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    for part in range(9):
        write(table, part)
    return table


def write(folder: Path, part: int) -> None:
    ids = range(part, 900, 9)
    pq.write_table(pa.table({"id": ids, "sorted": range(part * 100, part * 100 + 100)}), folder / f"{part}.parquet")


def run(capsys: Any, *arguments: object, code: int = 0) -> str:
    """Run an index command and return its standard output."""
    assert main(["index", *map(str, arguments)]) == code
    return str(capsys.readouterr().out)


def test_each_command_prints_its_result(folder: Path, capsys: Any) -> None:
    built = run(capsys, "build", folder, "id", "--memory", "64MiB", "--threads", "1")
    assert "id" in built
    assert " s" in built or " ms" in built
    assert run(capsys, "update", folder).strip()
    assert run(capsys, "compact", folder).strip()
    assert run(capsys, "expire", folder, "--older-than", "0").strip()
    assert "no problems found" in problems(capsys, folder)
    assert run(capsys, "drop", folder, "id").strip()
    assert ps.open_table(folder).index_kinds() == {}


def problems(capsys: Any, folder: Path) -> str:
    assert main(["index", "verify", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    return str(printed.err)


def test_each_command_prints_json(folder: Path, capsys: Any) -> None:
    built = json.loads(run(capsys, "build", folder, "id", "sorted", "--json"))
    assert built["columns"] == {"id": "sieve", "sorted": "none"}
    assert built["seconds"] >= 0
    for command in (["update"], ["compact"], ["expire"], ["drop", "id"]):
        assert isinstance(json.loads(run(capsys, command[0], folder, *command[1:], "--json")), dict), command


def test_hints_are_shell_commands(folder: Path, capsys: Any) -> None:
    run(capsys, "build", folder, "id")
    run(capsys, "build", folder, "id")
    assert "`parsieve index expire --older-than 0` removes them now" in run(capsys, "expire", folder)


def test_a_build_without_an_index_explains_why_and_how_to_force_it(folder: Path, capsys: Any) -> None:
    assert main(["index", "build", str(folder), "sorted"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("sorted: no index")
    assert printed.out.endswith("; --kind sieve builds one anyway\n")
    assert ps.open_table(folder).index_kinds() == {}
    run(capsys, "build", folder, "sorted", "--kind", "sieve")
    assert ps.open_table(folder).index_kinds() == {"sorted": "sieve"}


def test_a_file_without_an_index_is_named_once(folder: Path, capsys: Any) -> None:
    tomorrow = time.time() + 86_400
    os.utime(folder / "8.parquet", (tomorrow, tomorrow))
    assert main(["index", "build", str(folder), "id"]) == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("8.parquet") == 1
    assert "left out 1 file" in printed.out


def test_a_build_stores_or_drops_the_map_of_pages(folder: Path, capsys: Any) -> None:
    printed = run(capsys, "build", folder, "id", "--kind", "sieve", "--pages")
    assert printed.rstrip().endswith(" bytes in the map of pages")
    assert json.loads(run(capsys, "stats", folder, "--json"))["id"]["pages_bytes"] > 0
    assert "map of pages" in run(capsys, "build", folder, "id", "--kind", "sieve"), "it is kept"
    assert "map of pages" not in run(capsys, "build", folder, "id", "--kind", "sieve", "--no-pages")
    assert json.loads(run(capsys, "stats", folder, "--json"))["id"]["pages_bytes"] == 0


def test_a_build_takes_the_rate_for_missing_keys(folder: Path, capsys: Any) -> None:
    def stored_rate(*arguments: str) -> float | None:
        run(capsys, "build", folder, "id", "--kind", "sieve", *arguments)
        view = ps.open_table(folder).opened.index.look()
        assert view is not None
        layout = view.commit.columns["id",].layout
        assert layout is not None
        return layout.fpp

    rates = [stored_rate(), stored_rate("--fpp", "5%"), stored_rate("--fpp=0.5"), stored_rate("--fpp", "none")]
    assert rates == [0.02, 0.05, 0.5, None]
    assert main(["index", "build", str(folder), "id", "--fpp", "0"]) == 2
    assert "--fpp must be between 0 and 1" in capsys.readouterr().err


def test_stats_print_a_table_with_sizes_on_disk(folder: Path, capsys: Any) -> None:
    run(capsys, "build", folder, "id", "--kind", "both")
    run(capsys, "build", folder, "sorted", "--kind", "bloom")
    head, *rows = run(capsys, "stats", folder).splitlines()
    assert "on disk" in head
    assert sorted(row.split()[:2] for row in rows) == [["id", "both"], ["sorted", "bloom"]]
    stats = json.loads(run(capsys, "stats", folder, "--json"))
    assert {name: column["kind"] for name, column in stats.items()} == {"id": "both", "sorted": "bloom"}
    view = ps.open_table(folder).opened.index.look()
    assert view is not None
    stored = {part.name: part.size for part in view.commit.parts()}
    assert stats["id"]["bytes_lookup"] < stats["id"]["bytes_stored"] < sum(stored.values())


@pytest.mark.parametrize("command", ["update", "compact", "verify", "stats"])
def test_without_an_index_the_error_says_how_to_build_one(folder: Path, capsys: Any, command: str) -> None:
    assert main(["index", command, str(folder)]) == 2
    assert f"has no index; to build one, run: parsieve index build {folder} COLUMN" in capsys.readouterr().err


def test_expiry_refuses_a_negative_age(folder: Path, capsys: Any) -> None:
    run(capsys, "build", folder, "id")
    assert main(["index", "expire", str(folder), "--older-than", "-1"]) == 2
    assert "older_than is negative (-1 days)" in capsys.readouterr().err


def test_dropping_a_missing_index_does_not_explain_how_to_build_one(folder: Path, capsys: Any) -> None:
    assert main(["index", "drop", str(folder)]) == 2
    assert capsys.readouterr().err.strip().endswith(f"{folder} has no index to drop")
