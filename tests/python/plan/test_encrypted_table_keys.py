"""Tables of encrypted files opened with their keys: planned, indexed, verified and read; a wrong key skips nothing."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from support.encrypted_files import Kms, encrypted
from support.models.lake_truth import rows as texts
from support.models.plan_truth import INDEXED, check_plans, some_rows
from support.places import index_of

import parsieve as ps
from parsieve.cli import main

PARTS = 4
# One key for everything, which pyarrow takes by its bytes.
UNIFORM = {"footer_key": b"0123456789abcdef"}


def part(number: int) -> pa.Table:
    """Values that are scattered over all files, so that min/max excludes nothing; each secret is in one file."""
    ids = range(number, 2000 * PARTS, PARTS)
    return pa.table({"secret": [f"secret {n:05}" for n in ids], "other": list(ids), "open": list(ids)})


WHOLE = pa.concat_tables([part(number) for number in range(PARTS)])


def service() -> tuple[Any, pe.KmsConnectionConfig]:
    return (lambda _: Kms({})), pe.KmsConnectionConfig()


@pytest.fixture(params=["plaintext footer", "closed footer", "double wrapping"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Each file has keys of its own, which only the service unwraps."""
    for number in range(PARTS):
        encrypted(
            tmp_path / f"part-{number}.parquet",
            part(number),
            plaintext_footer=request.param == "plaintext footer",
            double_wrapping=request.param == "double wrapping",
        )
    time.sleep(0.1)
    return tmp_path


@pytest.fixture
def uniform(tmp_path: Path) -> Path:
    properties = pe.create_encryption_properties(UNIFORM["footer_key"])
    for number in range(PARTS):
        path = tmp_path / f"part-{number}.parquet"
        pq.write_table(part(number), path, row_group_size=1000, encryption_properties=properties)
    time.sleep(0.1)
    return tmp_path


WHERES = {
    "secret = 'secret 00042'": pc.field("secret") == "secret 00042",
    "other BETWEEN 10 AND 13": (pc.field("other") >= 10) & (pc.field("other") <= 13),
    "open = 7 AND secret > 'secret'": pc.field("open") == 7,
    "secret = 'no such'": pc.field("secret") == "no such",
}


def same_rows(table: ps.Table) -> None:
    """Every engine gives the rows of a full read."""
    for where, filter in WHERES.items():
        plan = table.plan(where)
        wanted = WHOLE.filter(filter).sort_by("open")
        assert plan.to_arrow().sort_by("open").equals(wanted), where
        assert plan.to_arrow(["secret"]).num_rows == wanted.num_rows
        assert plan.to_polars().collect().sort("open").to_arrow()["open"].to_pylist() == wanted["open"].to_pylist()
        assert sorted(row[2] for row in plan.to_duckdb().fetchall()) == wanted["open"].to_pylist()
        assert sum(batch.num_rows for batch in plan.to_batches()) == wanted.num_rows


def test_keys_of_a_service_plan_and_read(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    assert table.schema.names == ["secret", "other", "open"]
    same_rows(table)
    # Closed columns have bounds now.
    assert table.plan("other < 0").files == []
    assert table.plan("secret > 'z'").files == []
    assert list(table.plan("other = 3", row_groups=True).row_groups.values()) == [[0]] * PARTS
    # A client as it is will do.
    assert ps.open_table(str(folder), decryption=Kms({})).plan("other = 3").to_arrow()["open"].to_pylist() == [3]


def test_an_index_of_closed_columns_must_be_asked_for_by_name(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    for kind in ("sieve", "bloom", "both", "auto"):
        with pytest.raises(ps.UnsupportedError, match="expose="):
            table.build_index("secret", kind=kind)
        # Naming another column is not enough.
        with pytest.raises(ps.UnsupportedError, match="expose="):
            table.build_index(["secret", "other"], kind=kind, expose="other")
    assert table.index_stats() == {}
    stored = b"".join(path.read_bytes() for path in index_of(folder).rglob("*") if path.is_file())
    assert b"secret 0" not in stored
    assert table.build_index(["secret", "other"], kind="sieve", expose=["secret", "other"]).columns
    assert len(table.plan("secret = 'secret 00042'").files) == 1
    assert len(table.plan("other = 9").files) == 1
    same_rows(table)
    assert table.verify_index() == []
    # Who has no keys asks the same index, and cannot verify it.
    blind = ps.open_table(str(folder))
    if pq_opens(folder):
        assert len(blind.plan("secret = 'secret 00042'").files) == 1
        assert {lie.loses_rows for lie in blind.verify_index()} == {False}


def pq_opens(folder: Path) -> bool:
    """Whether everybody can read the footers."""
    try:
        pq.ParquetFile(folder / "part-0.parquet").close()
    except OSError:
        return False
    return True


def test_an_update_reads_closed_columns_only_by_name(folder: Path) -> None:
    plain = folder / "part-9.parquet"
    pq.write_table(part(0).slice(0, 10), plain)
    time.sleep(0.1)
    table = ps.open_table(str(folder), decryption=service())
    table.build_index("secret", kind="both")
    # Of five files one is plain. The others belong to every answer.
    assert len(table.plan("secret = 'no such'", row_groups=False).files) == PARTS
    stored = b"".join(path.read_bytes() for path in index_of(folder).rglob("*") if path.is_file())
    assert b"secret 00001" not in stored
    table.update_index()
    assert len(table.plan("secret = 'no such'", row_groups=False).files) == PARTS
    table.update_index(expose="secret")
    assert table.plan("secret = 'no such'", row_groups=False).files == []
    assert len(table.plan("secret = 'secret 00041'", row_groups=False).files) == 1
    assert table.verify_index() == []


def test_open_columns_are_indexed_beside_exposed_ones(tmp_path: Path) -> None:
    for number in range(PARTS):
        encrypted(tmp_path / f"part-{number}.parquet", part(number), plaintext_footer=True)
    time.sleep(0.1)
    table = ps.open_table(str(tmp_path), decryption=service())
    report = table.build_index(["open", "secret"], kind="sieve", expose="secret")
    assert report.columns == {"open": "sieve", "secret": "sieve"}
    assert table.verify_index() == []
    same_rows(table)
    with pytest.raises(ps.UnsupportedError, match="other"):
        table.build_index(["open", "other", "secret"], kind="sieve", expose="secret")


def test_keys_by_their_bytes(uniform: Path) -> None:
    table = ps.open_table(str(uniform), decryption=UNIFORM)
    same_rows(table)
    with pytest.raises(ps.UnsupportedError, match="expose="):
        table.build_index("open")
    with pytest.raises(ps.UnsupportedError, match="expose="):
        table.advise("open")
    [advice] = ps.advise(str(uniform), "open", decryption=UNIFORM, expose="open")
    assert advice.sampled == PARTS
    table.build_index("open", kind="sieve", expose="open")
    assert len(table.plan("open = 5").files) == 1
    assert table.verify_index() == []
    # Filters that are made with the same keys are asked by them.
    ps.add_filters(uniform / "part-0.parquet", columns="secret", encryption=UNIFORM, existing="replace")
    time.sleep(0.1)
    plan = ps.open_table(str(uniform), decryption=UNIFORM).plan("secret = 'secret 00001x'")
    assert not any(path.endswith("part-0.parquet") for path in plan.files)


@pytest.mark.parametrize("index", [None, "sieve", "bloom"])
def test_random_predicates_on_encrypted_files(tmp_path: Path, index: str | None) -> None:
    """As on tables that are open: against a full read, in every engine, and with never more kept than by footers."""
    random_ = random.Random(str(index))
    properties = pe.create_encryption_properties(UNIFORM["footer_key"])
    parts = [some_rows(random_, 20, first=number * 30) for number in range(4)]
    for number, table in enumerate(parts):
        # One of them is open to all.
        options = {} if number == 2 else {"encryption_properties": properties}
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=6, **options)
    ps.add_filters(tmp_path / "part-1.parquet", columns=["id", "name"], encryption=UNIFORM)
    time.sleep(0.1)
    opened = ps.open_table(str(tmp_path), decryption=UNIFORM)
    full = opened.plan().to_arrow()
    assert texts(full) == texts(pa.concat_tables(parts))
    if index is not None:
        opened.build_index(INDEXED, kind=index, expose=INDEXED)
        assert opened.verify_index() == []
    check_plans(opened, full, random_, 12)


def test_keys_of_columns_by_their_bytes(tmp_path: Path) -> None:
    seen = encrypted(tmp_path / "part-0.parquet", part(0))
    time.sleep(0.1)
    keys = {"footer_key": seen["footer"], "column_keys": {"secret": seen["one"], "other": seen["two"]}}
    plan = ps.open_table(str(tmp_path), decryption=keys).plan("other = 8")
    assert plan.to_arrow()["secret"].to_pylist() == ["secret 00008"]
    fewer = {"footer_key": seen["footer"], "column_keys": {"other": seen["two"]}}
    table = ps.open_table(str(tmp_path), decryption=fewer)
    assert table.plan("other < 0").files == []
    assert len(table.plan("secret = 'no such'").files) == 1
    assert table.plan("other = 8").to_arrow(["open"])["open"].to_pylist() == [8]
    with pytest.raises(ps.DecryptionError, match="one"):
        table.plan("other = 8").to_arrow()


def test_open_files_need_no_key_of_the_footer(tmp_path: Path) -> None:
    pq.write_table(part(0), tmp_path / "part-0.parquet")
    time.sleep(0.1)
    table = ps.open_table(str(tmp_path), decryption={"column_keys": {"secret": bytes(16)}})
    assert table.plan("other = 8").to_arrow()["secret"].to_pylist() == ["secret 00008"]
    assert table.build_index("secret", kind="sieve").columns == {"secret": "sieve"}


REAL = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing" / "no-bloom"


@pytest.mark.skipif(not REAL.exists(), reason="the files of apache/parquet-testing are not on this machine")
def test_files_of_other_writers(tmp_path: Path) -> None:
    """A key that no KMS wrapped: pyarrow takes the footer's, and none of a column's own."""
    keys = {"footer_key": b"0123456789012345", "column_keys": {"double_field": b"1234567890123450"}}
    for name in ("uniform_encryption", "encrypt_columns_plaintext_footer"):
        data = (REAL / f"{name}.parquet.encrypted").read_bytes()
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.parquet").write_bytes(data)
    time.sleep(0.1)
    table = ps.open_table(str(tmp_path / "uniform_encryption"), decryption=keys)
    assert table.plan("double_field >= 0").to_arrow(["double_field"]).num_rows > 0
    assert table.plan("double_field < -1e9").files == []
    table = ps.open_table(str(tmp_path / "encrypt_columns_plaintext_footer"), decryption=keys)
    assert table.plan("double_field < -1e9").files == []
    with pytest.raises(ps.DecryptionError, match="KMS alone"):
        table.plan("double_field >= 0").to_arrow(["double_field"])


def test_keys_that_pyarrow_cannot_take_are_refused_with_words(tmp_path: Path) -> None:
    seen = encrypted(tmp_path / "part-0.parquet", part(0), plaintext_footer=True, double_wrapping=True)
    time.sleep(0.1)
    keys = {"footer_key": seen.get("footer", bytes(16)), "column_keys": {"secret": bytes(16)}}
    with pytest.raises(ps.ParsieveError):
        ps.open_table(str(tmp_path), decryption=keys).plan("open = 8").to_arrow()
    # Opaque keys open footers and filters; nobody gets rows by them.
    sealed = ps.FileKeys.from_kms(tmp_path / "part-0.parquet", Kms({}))
    with pytest.raises(ps.UnsupportedError, match="as a dict"):
        _ = ps.open_table(str(tmp_path), decryption=sealed).plan("open = 8").to_arrow()


@pytest.mark.parametrize("where", list(WHERES))
def test_wrong_keys_skip_nothing(folder: Path, uniform: Path, where: str) -> None:
    class Liar(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            return bytes(16)

    class Closed(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            raise RuntimeError("nobody is at home")

    # The files of `uniform` took the places of those of `folder`, whose keys are of no use for them.
    for keys in ({"footer_key": bytes(16)}, {"footer_key": b"fedcba9876543210", "column_keys": {"open": bytes(16)}}):
        with pytest.raises(ps.DecryptionError):
            ps.open_table(str(uniform), decryption=keys).plan(where)
    for number in range(PARTS):
        encrypted(folder / f"part-{number}.parquet", part(number), plaintext_footer=True)
    time.sleep(0.1)
    for liar in (Liar({}), Closed({})):
        with pytest.raises((ps.DecryptionError, RuntimeError)):
            ps.open_table(str(folder), decryption=liar).plan(where).to_arrow()
    # The schema is known, as of a table that was opened before the keys were changed.
    table = ps.open_table(str(folder), decryption=service())
    assert table.plan(where).to_arrow().num_rows == WHOLE.filter(WHERES[where]).num_rows
    for liar in (Liar({}), Closed({})):
        from parsieve.lake.storage.keys import TableKeys

        table = ps.open_table(str(folder), decryption=service())
        _ = table.schema
        table.opened.lake.keys = TableKeys(liar)
        plan = table.plan(where)
        assert len(plan.files) == PARTS
        assert "footer cannot be read" in plan.explain()


def test_a_wrong_key_of_one_column_is_an_error(tmp_path: Path) -> None:
    seen = encrypted(tmp_path / "part-0.parquet", part(0), plaintext_footer=True)
    time.sleep(0.1)
    keys = {"footer_key": seen["footer"], "column_keys": {"secret": bytes(16), "other": seen["two"]}}
    table = ps.open_table(str(tmp_path), decryption=keys)
    with pytest.raises(ps.DecryptionError):
        table.plan("open = 4").to_arrow()


def test_plain_files_among_encrypted_ones(uniform: Path) -> None:
    pq.write_table(part(1), uniform / "part-1.parquet")
    time.sleep(0.1)
    same_rows(ps.open_table(str(uniform), decryption=UNIFORM))


def test_a_dataset_is_refused_with_words(uniform: Path) -> None:
    with pytest.raises(ps.UnsupportedError, match="to_arrow"):
        ps.open_table(str(uniform), decryption=UNIFORM).plan("open = 3").to_dataset()


@pytest.mark.parametrize("format", ["delta", "iceberg", "hudi"])
def test_formats_whose_libraries_take_no_keys(tmp_path: Path, format: str) -> None:
    with pytest.raises(ps.UnsupportedError, match="Spark"):
        ps.open_table(str(tmp_path), format, decryption=UNIFORM)


def test_what_are_no_keys(tmp_path: Path) -> None:
    for nothing in (5, "key", b"0123456789abcdef"):
        with pytest.raises(TypeError, match="decryption"):
            ps.open_table(str(tmp_path), decryption=nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ps.open_table(str(tmp_path), decryption={"key": bytes(16)})
    with pytest.raises(TypeError, match="unwrap_key"):
        ps.open_table(str(tmp_path), decryption=(5, None))


def test_keys_do_not_travel(uniform: Path) -> None:
    """A lake that goes to other processes leaves them behind."""
    import pickle

    table = ps.open_table(str(uniform), decryption=UNIFORM)
    sent = pickle.dumps(table.opened.lake)
    assert UNIFORM["footer_key"] not in sent
    assert pickle.loads(sent).keys is None


def test_the_command_line(uniform: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Any) -> None:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    file.write_text(json.dumps({"footer_key": UNIFORM["footer_key"].hex()}))
    file.chmod(0o600)
    keys = ["--key-file", str(file)]
    assert main(["plan", str(uniform), "open = 5", *keys]) == 0
    assert len(capsys.readouterr().out.splitlines()) == PARTS
    assert main(["index", "build", str(uniform), "open", *keys]) == 2
    assert "expose" in capsys.readouterr().err
    assert main(["index", "build", str(uniform), "open", "--expose", "open", *keys]) == 0
    assert main(["index", "update", str(uniform), "--expose", "open", *keys]) == 0
    assert main(["index", "verify", str(uniform), *keys]) == 0
    assert main(["advise", str(uniform), "open", "--expose", "open", *keys]) == 0
    capsys.readouterr()
    assert main(["plan", str(uniform), "open = 5", *keys]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["plan", str(uniform), "open = 5"]) == 2
    assert "encrypted" in capsys.readouterr().err
