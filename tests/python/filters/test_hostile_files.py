"""Thousands of damaged files: each raises an error or skips nothing, without panics, hangs or large allocations."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = Path(__file__).resolve().parents[2] / "hostile"
# Each run tests only this share of the corpus; `python tests/hostile/read_corpus.py FOLDER 0 1` tests all of it.
SHARE = 18

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds a process's memory by RLIMIT_DATA")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=HOSTILE, capture_output=True, text=True, check=False, timeout=500
    )


def test_damaged_files_are_refused_or_exclude_nothing(tmp_path: Path) -> None:
    result = python("read_corpus.py", str(tmp_path), "0", str(SHARE))
    last = tmp_path / "current-file"
    assert result.returncode == 0, f"at {last.read_text() if last.exists() else 'the start'}: {result.stderr}"
    *findings, count = result.stdout.splitlines()
    assert not findings
    assert int(count) >= 300


PROVE = """
import sys
from pathlib import Path
import corpus, json, read_corpus, signal
import parsieve as ps

def spin():
    while True:
        pass

read_corpus.steady_memory()
read_corpus.SECONDS = 1
signal.signal(signal.SIGPROF, read_corpus.overtime)
sound = corpus.sound()["none"]
bitset = bytes(memoryview(ps.open_filters(sound).filter(0, "id")))
lost = corpus.Damaged("lost", sound.replace(bitset, bytes(len(bitset))), keeps=True)
size = read_corpus.BOUND + read_corpus.MIB
readers = [("python", lambda: bytearray(size)), ("rust", lambda: ps.BloomFilter(num_bytes=size)), ("spin", spin)]
for finding in read_corpus.wrong(corpus.Damaged("none", b""), Path(sys.argv[1]), lambda path: readers):
    print(json.dumps(finding))
for finding in read_corpus.wrong(lost, Path(sys.argv[1])):
    print(json.dumps(finding))
"""


def test_each_limit_can_fail(tmp_path: Path) -> None:
    """Excessive memory in Rust or Python, excessive time and a lost row all make the run fail."""
    proof = python("-c", PROVE, str(tmp_path))
    assert proof.returncode == 0, proof.stderr
    found = {(line["reader"], line["wrong"].partition(":")[0]) for line in map(json.loads, proof.stdout.splitlines())}
    assert found == {
        ("python", "MemoryError"),
        ("rust", "MemoryError"),
        ("spin", "TimeoutError"),
        ("might_contain", "a row group that holds a matching row is excluded"),
    }
