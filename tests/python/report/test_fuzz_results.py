"""The results that the fuzz program reads from libFuzzer and llvm-cov."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.programs import fuzz

LOG = """\
INFO: Seed: 1
#1	pulse  cov: 50 ft: 1 corp: 1/1b exec/s: 0 rss: 30Mb
#2	INITED cov: 100 ft: 1 corp: 1/1b exec/s: 0 rss: 30Mb
#1000	NEW    cov: 130 ft: 1 corp: 1/1b exec/s: 0 rss: 30Mb
#3900	REDUCE cov: 140 ft: 1 corp: 1/1b exec/s: 0 rss: 30Mb
#4000	DONE   cov: 141 ft: 1 corp: 1/1b exec/s: 0 rss: 30Mb
"""


def test_the_progress_of_a_run() -> None:
    # The last of four hours begins after 3,000 executions.
    assert fuzz.progress(LOG, 4 * 3600) == (4000, 141 - 130)
    assert fuzz.progress(LOG, 600) == (4000, 141 - 100)
    assert fuzz.progress("the program did not start", 600) == (0, 0)


def test_a_failed_input_is_named() -> None:
    assert fuzz.failed_inputs(LOG, 0) == []
    assert fuzz.failed_inputs(LOG, 1) == ["the program failed"]
    log = LOG + "artifact_prefix='x/'; Test unit written to x/crash-12ab\n"
    assert fuzz.failed_inputs(log, 77) == ["crash-12ab"]


def test_a_checkout_starts_with_the_packed_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "FUZZ", tmp_path)
    inputs = [b"", bytes(range(256)), b"x" * 900]
    corpus = fuzz.unpack("footer")
    with pytest.raises(SystemExit, match="no inputs"):
        fuzz.pack("footer")
    for number, data in enumerate(inputs):
        (corpus / str(number)).write_bytes(data)
    archive = fuzz.pack("footer").read_bytes()
    shutil.rmtree(corpus)
    assert sorted(path.read_bytes() for path in fuzz.unpack("footer").iterdir()) == inputs
    assert fuzz.pack("footer").read_bytes() == archive
    # An older corpus gets the inputs of the archive, and a new archive keeps them.
    shutil.rmtree(corpus)
    corpus.mkdir()
    (corpus / "more").write_bytes(b"y")
    fuzz.pack("footer")
    assert sorted(path.read_bytes() for path in fuzz.unpack("footer").iterdir()) == sorted([*inputs, b"y", b"y"])


def test_lines_that_any_program_reaches_count() -> None:
    report = f"""\
SF:{fuzz.ROOT}/src/thrift/reader.rs
DA:3,0
DA:4,0
DA:5,2
DA:7,0
end_of_record
SF:/elsewhere/src/lib.rs
DA:1,0
SF:{fuzz.ROOT}/src/thrift/reader.rs
DA:7,0
DA:8,0
DA:8,1
"""
    [(path, reached)] = fuzz.parse_report(report).items()
    assert (path, reached.lines, reached.ranges()) == ("src/thrift/reader.rs", 5, "3-4, 7")
