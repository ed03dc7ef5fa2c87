"""`parsieve plan` and `parsieve advise`: data on standard output, a summary and warnings on standard error."""

from __future__ import annotations

import json
import logging
import re
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.cli.output import in_color
from parsieve.cli.tables import _advice_row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    table = tmp_path / "orders"
    table.mkdir()
    for part in range(9):
        ids = range(part * 100, part * 100 + 100)
        times = pa.array(ids, pa.timestamp("s", "UTC"))
        pq.write_table(
            pa.table({"order_id": ids, "customer_id": [str(number) for number in ids], "at": times, "n": [7] * 100}),
            table / f"part-{part}.parquet",
        )
    return table


def run(capsys: Any, *arguments: object, code: int = 0) -> tuple[str, str]:
    """Run a command and return its standard output and standard error."""
    assert main([str(argument) for argument in arguments]) == code
    printed = capsys.readouterr()
    return printed.out, printed.err


def test_plan_ends_with_a_summary(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, "plan", folder, "order_id = 142")
    assert out == f"{folder}/part-1.parquet\n"
    assert re.fullmatch(r"1 of 9 files, [\d.]+ of [\d.]+ kB, [\d.,]+ m?s\n", err)
    assert run(capsys, "plan", folder, "order_id = 142", "-q") == (out, "")
    output, err = run(capsys, "plan", folder, "order_id = 142", "--json")
    assert err == ""
    assert json.loads(output)["files"] == [f"{folder}/part-1.parquet"]
    assert "skipped 8 files" in run(capsys, "plan", folder, "order_id = 142", "--explain")[0]


def test_a_plan_with_an_order_lists_the_files_as_they_are_read(folder: Path, capsys: Any) -> None:
    out, _ = run(capsys, "plan", folder, "order_id < 300", "--order-by", "order_id", "--descending", "--limit", 3)
    assert out.splitlines() == [f"{folder}/part-{part}.parquet" for part in (2, 1, 0)]
    arguments = ("--order-by", "order_id", "--nulls", "first", "--limit", 1)
    assert (
        "order: order_id ascending, nulls first; the first 1 row"
        in run(capsys, "plan", folder, "order_id < 300", *arguments, "--explain")[0]
    )
    described = json.loads(run(capsys, "plan", folder, "order_id < 300", *arguments, "--json")[0])
    assert (described["order_by"], described["nulls"], described["limit"]) == ("order_id", "first", 1)
    assert "pass --order-by" in run(capsys, "plan", folder, "order_id < 300", "--descending", code=2)[1]


def test_a_plan_without_files_fails_only_with_exit_code(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, "plan", folder, "order_id = -1")
    assert out == ""
    assert err.startswith("0 of 9 files, 0 of ")
    run(capsys, "plan", folder, "order_id = -1", "--exit-code", code=1)
    run(capsys, "plan", folder, "order_id = 1", "--exit-code", code=0)
    run(capsys, "plan", folder, "order_id = -1", "--exit-code", "--json", code=1)


def test_plan_warns_about_unknown_functions(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, "plan", folder, "length(customer_id) = 3 AND order_id = 142")
    assert len(out.splitlines()) == 1
    assert err.startswith("parsieve: warning: ")
    assert "LENGTH(customer_id) = 3" in err.splitlines()[0]
    assert err.count("LENGTH") == 1
    assert "LENGTH" in run(capsys, "plan", folder, "length(customer_id) = 3", "-q")[1]
    assert "LENGTH" not in run(capsys, "plan", folder, "length(customer_id) = 3", "--on-unknown", "ignore")[1]
    assert (
        "LENGTH"
        in json.loads(run(capsys, "plan", folder, "length(customer_id) = 3", "--json")[1])["warning"]["message"]
    )
    out, err = run(capsys, "plan", folder, "length(customer_id) = 3", "--on-unknown", "error", code=2)
    assert out == ""
    assert err.startswith("parsieve: LENGTH(customer_id) = 3 excludes nothing: ")


def test_warnings_suggest_a_remedy_for_the_shell(folder: Path, capsys: Any) -> None:
    assert "write the values themselves" in run(capsys, "plan", folder, "order_id = ?", code=2)[1]
    assert "lookup --keys-from" in run(capsys, "plan", folder, "order_id IN (SELECT 1)")[1]


def test_plan_accepts_a_time_zone(folder: Path, capsys: Any) -> None:
    where = "at = '1970-01-01 00:01:00'"
    assert len(run(capsys, "plan", folder, where)[0].splitlines()) == 9
    assert len(run(capsys, "plan", folder, where, "--timezone", "UTC")[0].splitlines()) == 1


def test_options_choose_the_index_location_and_the_format(folder: Path, tmp_path: Path, capsys: Any) -> None:
    location = tmp_path / "elsewhere"
    run(capsys, "index", "build", folder, "order_id", "--kind", "sieve", "--index-location", location)
    assert ps.open_table(folder, index_location=location).index_kinds() == {"order_id": "sieve"}
    assert ps.open_table(folder).index_kinds() == {}
    run(capsys, "index", "stats", folder, "--index-location", location)
    run(capsys, "plan", folder, "order_id = 1", "--index-location", location, "--format", "parquet")
    run(capsys, "plan", folder, "order_id = 1", "--format", "delta", code=2)


def test_report_accepts_a_time_zone_and_an_index_location(folder: Path, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "page.html"
    where = ["--where", "at = '1970-01-01 00:01:00'", "--timezone", "UTC"]
    out, err = run(capsys, "report", folder, *where, "-o", page, "--index-location", tmp_path / "index")
    assert (out, err) == (f"{page}\n", f"1 query of {folder}\n")
    assert "reads 1 of 9 files" in page.read_text(encoding="utf-8")
    assert run(capsys, "report", folder, *where, "-o", page, "-q")[1] == ""


def test_advice_is_printed_as_a_table(folder: Path, capsys: Any) -> None:
    out, err = run(capsys, "advise", folder)
    head, *rows = out.splitlines()
    for name in ("column", "kind", "on disk", "for lookups", "files for a key", "missing key", "interval", "note"):
        assert name in head
    assert [row.split()[0] for row in rows] == ["order_id", "customer_id", "at", "n"]
    assert not re.search(r"\d\.\d\d", out), "numbers are rounded"
    assert err.startswith("estimated from 9 of 9 files")
    assert len(json.loads(run(capsys, "advise", folder, "n", "--json")[0])) == 1


def test_advice_shows_the_costs_and_savings_of_an_index() -> None:
    reads = {"minmax_reads": 200.04, "bloom_reads": 3.0, "sieve_reads": 1.96}
    absent = {"minmax_absent": 199.0, "bloom_absent": 1.99, "sieve_absent": 0.5}
    size = {"sieve_bytes": 31_000_000, "bloom_bytes": 900_000, "build_seconds": 1.0, "sieve_lookup_bytes": 16_100_000}
    advice = ps.Advice(column="k", recommendation="sieve", why="so", slices=200, sampled=16, **reads, **absent, **size)  # type: ignore[arg-type]
    row = _advice_row(advice)
    assert (row["files for a key"], row["missing key"], row["interval"]) == ("200 -> 2", "199 -> 0.5", "200 -> 2")
    assert (row["on disk"], row["for lookups"]) == ("31 MB", "16.1 MB")
    assert _advice_row(advice._replace(recommendation="both"))["on disk"] == "31.9 MB"
    row = _advice_row(advice._replace(recommendation="bloom"))
    assert (row["files for a key"], row["missing key"], row["interval"]) == ("200 -> 3", "199 -> 2", "200")
    row = _advice_row(advice._replace(recommendation="none"))
    assert (row["on disk"], row["files for a key"]) == ("-", "200")


def test_verbose_shows_the_log(folder: Path, capsys: Any) -> None:
    _, err = run(capsys, "plan", folder, "order_id = 1", "-v")
    assert "parsieve.cli: opened the parquet table" in err
    assert "parsieve.cli" not in run(capsys, "plan", folder, "order_id = 1")[1]
    assert logging.getLogger("parsieve").handlers == []


def test_output_is_colored_on_terminals_only(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["plan", folder, "order_id = 1"]
    assert "\033[" not in run(capsys, *arguments)[1]
    assert "\033[" in run(capsys, *arguments, "--color", "always")[1]
    assert "\033[" in run(capsys, "--color=always", *arguments)[1]
    assert "\033[" in run(capsys, "advise", folder, "--color", "always")[0]

    class Terminal:
        def isatty(self) -> bool:
            return True

    stream: Any = Terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert in_color("auto", stream)
    assert not in_color("never", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not in_color("auto", stream)
    assert in_color("always", stream)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not in_color("auto", stream)


def test_a_report_replaces_no_other_file(folder: Path, tmp_path: Path, capsys: Any) -> None:
    data, notes = next(folder.glob("*.parquet")), tmp_path / "notes.html"
    notes.write_text("remember the milk")
    for path in (data, notes):
        before = path.read_bytes()
        _, err = run(capsys, "report", folder, "--where", "order_id = 1", "-o", path, code=2)
        assert f"{path} exists and is not an HTML page; choose another file" in err
        run(capsys, "demo", "--report", path, code=2)
        assert path.read_bytes() == before
    (tmp_path / "empty.html").touch()
    run(capsys, "report", folder, "--where", "order_id = 1", "-o", tmp_path / "empty.html")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_leaves_the_earlier_report(folder: Path, tmp_path: Path, capsys: Any) -> None:
    import resource

    report = ("report", folder, "--where", "order_id = 1", "-o")
    _, err = run(capsys, *report, "/dev/full", code=2)
    assert "/dev/full: No space left on device" in err
    page = tmp_path / "page.html"
    run(capsys, *report, page)
    earlier, limit = page.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    page.chmod(0o640)
    # The limit on the size of files acts like a full disk.
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        _, err = run(capsys, *report, page, code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, ignored)
    assert f"{page}: File too large" in err
    assert page.read_bytes() == earlier
    run(capsys, *report, page)
    assert page.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["page.html"]
    assert not list(tmp_path.glob(".*.tmp"))


def test_options_may_stand_before_optional_columns(folder: Path, capsys: Any) -> None:
    for arguments in (
        (folder, "order_id", "n", "--json"),
        (folder, "--json", "order_id", "n"),
        (folder, "order_id", "--json", "n"),
    ):
        out, _ = run(capsys, "advise", *arguments)
        assert [advice["column"] for advice in json.loads(out)] == ["order_id", "n"]
    for column in ("order_id", "customer_id"):
        run(capsys, "index", "build", folder, column, "--kind", "sieve")
    assert "dropped order_id;" in run(capsys, "index", "drop", folder, "-q", "order_id")[0]
    assert ps.open_table(folder).index_kinds() == {"customer_id": "sieve"}
    with pytest.raises(SystemExit):
        main(["advise", str(folder), "--jsn", "n"])
    assert "unknown option --jsn; did you mean '--json'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", str(folder), "--explain", "n = 7", "order_id = 1"])
    assert "unexpected argument 'order_id = 1'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["report", str(folder), "-o", "page.html", ""])
    assert "the path is empty; for the current folder, write ." in capsys.readouterr().err
