"""Other files in a table's folder: the error names the file and the remedy."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps


@pytest.mark.parametrize("content", [b"id,name\n1,a\n2,b\n", b"PAR1", b"x" * 7])
def test_the_error_names_a_file_that_is_not_parquet(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ps.FormatError, match=re.escape(str(tmp_path / "a.csv"))) as caught:
        ps.open_table(tmp_path).plan("id = 1")
    assert "move this one, or rename it" in str(caught.value)
    assert str(caught.value).count("not a Parquet file") == 1
    assert ".." not in str(caught.value)
    if len(content) > 8:
        assert str(caught.value).startswith(f"not a Parquet file: {tmp_path / 'a.csv'} (missing PAR1 footer)")


def test_the_error_names_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ps.FormatError, match=r"^not a Parquet file: .*missing PAR1 footer"):
        ps.open_table(tmp_path).plan("id = 1")
    with pytest.raises(ps.FormatError, match=r"^not a Parquet file: .*missing PAR1 footer"):
        ps.open_filters(path)
