"""Hints of the command line: reasons for an answer, commands to run, and corrections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(3):
        table = pa.table({"id": range(number, 30, 3), "a,b": [number] * 10, "flag": [True] * 10})
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=5)
    wait_until_old(tmp_path)
    return tmp_path


def test_probe_shows_the_reason_for_each_answer(folder: Path, capsys: Any) -> None:
    path = str(folder / "part-0.parquet")

    def reasons(*arguments: str) -> list[str]:
        main(["probe", path, *arguments, "--json"])
        return [row_group["why"] for row_group in json.loads(capsys.readouterr().out)["row_groups"]]

    assert reasons("id", "3") == ["no filter"] * 2
    ps.add_filters(path, columns="id")
    assert reasons("id", "3") == ["the filter does not exclude it", "the filter excludes it"]
    assert reasons("flag", "true") == ["filters cannot answer for this type"] * 2
    assert main(["probe", path, "id", "3"]) == 0
    assert "the filter does not exclude it" in capsys.readouterr().out
    with Path(path).open("r+b") as file:
        file.seek(ps.open_filters(path).ranges()[0].offset)
        file.write(b"\xff" * 8)
    assert reasons("id", "3")[0].startswith("the filter cannot be used: ")


def test_probe_takes_one_file(folder: Path, capsys: Any) -> None:
    assert main(["probe", str(folder), "id", "3"]) == 2
    expected = f"{folder} is a folder, and this command takes one file; to find the files of a folder that can hold a "
    assert f"{expected}value, run: parsieve plan {folder} 'id = VALUE'" in capsys.readouterr().err


def test_explain_lists_predicates_without_evidence(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "part-0.parquet", write_statistics=False)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    explanation = table.plan("id = 7", row_groups=False).explain()
    assert "no evidence for id = 7: no min/max statistics, index or filter" in explanation
    table.build_index("id", kind="sieve")
    assert "no evidence for" not in table.plan("id = 2").explain()


def test_explain_says_which_texts_an_index_answers(tmp_path: Path) -> None:
    for number in range(3):
        lines = [f"request {number} timed out" for _ in range(50)]
        pq.write_table(pa.table({"line": lines}), tmp_path / f"part-{number}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))

    def missing_evidence(predicate: str) -> list[str]:
        lines = table.plan(predicate).explain().splitlines()
        return [line.strip() for line in lines if "no evidence for" in line]

    assert missing_evidence("line LIKE '%imed%'") == ["no evidence for line LIKE '%imed%': no usable text index"]
    table.build_index("line", kind="words")
    only_words = "the words index answers only conditions that name a whole word and do not ignore case"
    assert missing_evidence("line LIKE '%imed%'") == [f"no evidence for line LIKE '%imed%': {only_words}"]
    [line] = missing_evidence("line ILIKE '% Out %'")
    assert line.endswith(only_words)
    assert missing_evidence("line LIKE '% timed %'") == []
    table.build_index("line", kind="text")
    assert missing_evidence("line LIKE '%imed%'") == []
    [line] = missing_evidence("line LIKE '%ed%'")
    only_long_texts = "the text index answers only conditions with three or more fixed characters in a row"
    assert line.endswith(f"{only_long_texts}; {only_words}")


def test_index_commands_need_an_index(folder: Path, capsys: Any) -> None:
    for command in ("stats", "verify", "update", "compact", "drop"):
        assert main(["index", command, str(folder)]) == 2, command
        assert "no index" in capsys.readouterr().err
    assert main(["index", "build", str(folder), "id", "--kind", "bloom"]) == 0
    capsys.readouterr()
    assert main(["index", "stats", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["id", "bloom"]
    assert main(["index", "verify", str(folder)]) == 0
    assert "no problems" in capsys.readouterr().err


def test_index_commands_count_the_files_that_the_index_does_not_cover(folder: Path, capsys: Any) -> None:
    assert main(["index", "build", str(folder), "id", "--kind", "sieve"]) == 0
    assert main(["index", "build", str(folder), "id", "--kind", "bloom"]) == 0
    capsys.readouterr()

    def notes() -> str:
        written = ""
        for command in ("stats", "verify"):
            assert main(["index", command, str(folder)]) == 0
            written += capsys.readouterr().err
        return written

    assert "does not cover" not in notes()
    pq.write_table(pa.table({"id": [1, 2]}), folder / "new-1.parquet")
    pq.write_table(pa.table({"id": [3]}), folder / "new-2.parquet")
    expected = f"does not cover 2 files of the table; to bring it up to date, run: parsieve index update {folder}"
    assert notes().count(expected) == 2
    assert main(["index", "stats", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"]["files_not_covered"] == 2
    assert main(["index", "update", str(folder)]) == 0
    capsys.readouterr()
    assert "does not cover" not in notes()


@pytest.mark.parametrize("state", ["yesterday", "-1", "2026-13-45"])
def test_invalid_states_are_rejected(tmp_path: Path, capsys: Any, state: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    assert main(["plan", str(tmp_path), "id = 1", f"--as-of={state}"]) == 2
    assert f"a version, or a time such as 2026-01-31T12:00:00Z, not {state!r}" in capsys.readouterr().err
    assert main(["plan", str(tmp_path), "id = 1", "--as-of", "2026-01-31"]) == 2
    assert "has no time zone" in capsys.readouterr().err
    assert main(["plan", str(tmp_path), "id = 1", "--as-of", "0"]) == 0


def test_a_string_without_quotes_gets_a_hint(folder: Path, capsys: Any) -> None:
    table = ps.open_table(str(folder))
    for where in ("id = SKU", "id IN (1, SKU)", "id BETWEEN 1 AND SKU", "id LIKE SKU", "id != SKU"):
        with pytest.raises(ps.ColumnNotFoundError, match=r"in single quotes: 'SKU'"):
            table.plan(where)
    with pytest.raises(ps.ColumnNotFoundError, match=r"single quotes: 'SKU'"):
        table.plan('id = "SKU"')
    with pytest.raises(ps.ColumnNotFoundError, match="To find nulls, write IS NULL"):
        table.plan("id = None")
    for where in ("SKU = 1", "SKU IS NULL", "SKU IN (1)", "st.x = 5", "id = st.x"):
        with pytest.raises(ps.ColumnNotFoundError) as caught:
            table.plan(where)
        assert ("quotes" in str(caught.value)) is (where == "id = st.x")
    assert main(["plan", str(folder), "id = SKU"]) == 2
    assert "'SKU'" in capsys.readouterr().err


def test_a_column_name_may_contain_a_comma(folder: Path, capsys: Any) -> None:
    path = str(folder / "part-0.parquet")
    assert main(["add", path, "-c", "a,b", "-c", "id"]) == 0
    with ps.open_filters(path) as filters:
        assert {byte_range.column for byte_range in filters.ranges()} == {"a,b", "id"}
    assert main(["index", "build", str(folder), "a,b"]) == 0
    assert ps.open_table(str(folder)).index_kinds() == {"a,b": "sieve"}


def test_add_reports_existing_filters_and_how_to_treat_them(folder: Path, capsys: Any) -> None:
    path = str(folder / "part-0.parquet")
    assert main(["add", path, "-c", "id"]) == 0
    assert "existing" not in capsys.readouterr().err
    assert main(["add", path, "-c", "id"]) == 0
    assert "replaced 2 existing filters (use --existing keep to leave them)" in capsys.readouterr().err
    assert main(["add", path, "-c", "id", "--existing", "keep"]) == 0
    printed = capsys.readouterr()
    assert "nothing written" in printed.out
    assert "existing" not in printed.err
    assert main(["add", str(folder), "-c", "id"]) == 0
    assert "use --existing replace to replace them" in capsys.readouterr().err
