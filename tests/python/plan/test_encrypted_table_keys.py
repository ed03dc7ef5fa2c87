"""Encrypted tables that are opened with their keys: plans, indexes and rows. A wrong key never skips a file."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from support.aging import wait_until_old
from support.encrypted_files import Kms, encrypted
from support.models.lake_truth import rows as texts
from support.models.plan_truth import INDEXED, check_plans, some_rows
from support.places import index_of

import parsieve as ps
from parsieve.cli import main
from parsieve.filters import kms

PARTS = 4
# One key for the footer and all columns, given as bytes.
UNIFORM = {"footer_key": b"0123456789abcdef"}


def part(number: int) -> pa.Table:
    """Return rows of scattered values, so that min/max statistics skip no file. Each secret is in one file."""
    ids = range(number, 2000 * PARTS, PARTS)
    return pa.table({"secret": [f"secret {n:05}" for n in ids], "other": list(ids), "open": list(ids)})


ALL_ROWS = pa.concat_tables([part(number) for number in range(PARTS)])


def service() -> tuple[Any, pe.KmsConnectionConfig]:
    return (lambda _: Kms({})), pe.KmsConnectionConfig()


@pytest.fixture(params=["plaintext footer", "closed footer", "double wrapping"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Write files with different keys, which only the key service can unwrap."""
    for number in range(PARTS):
        encrypted(
            tmp_path / f"part-{number}.parquet",
            part(number),
            plaintext_footer=request.param == "plaintext footer",
            double_wrapping=request.param == "double wrapping",
        )
    wait_until_old(tmp_path)
    return tmp_path


@pytest.fixture
def uniform(tmp_path: Path) -> Path:
    properties = pe.create_encryption_properties(UNIFORM["footer_key"])
    for number in range(PARTS):
        path = tmp_path / f"part-{number}.parquet"
        pq.write_table(part(number), path, row_group_size=1000, encryption_properties=properties)
    wait_until_old(tmp_path)
    return tmp_path


CONDITIONS = {
    "secret = 'secret 00042'": pc.field("secret") == "secret 00042",
    "other BETWEEN 10 AND 13": (pc.field("other") >= 10) & (pc.field("other") <= 13),
    "open = 7 AND secret > 'secret'": pc.field("open") == 7,
    "secret = 'no such'": pc.field("secret") == "no such",
}


def assert_engines_return_all_rows(table: ps.Table) -> None:
    """Assert that every engine returns the rows of a full read."""
    for where, filter in CONDITIONS.items():
        plan = table.plan(where)
        expected = ALL_ROWS.filter(filter).sort_by("open")
        assert plan.to_arrow().sort_by("open").equals(expected), where
        assert plan.to_arrow(["secret"]).num_rows == expected.num_rows
        assert plan.to_polars().collect().sort("open").to_arrow()["open"].to_pylist() == expected["open"].to_pylist()
        assert sorted(row[2] for row in plan.to_duckdb().fetchall()) == expected["open"].to_pylist()
        assert sum(batch.num_rows for batch in plan.to_batches()) == expected.num_rows


def test_keys_of_a_service_open_footers_and_rows(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    assert table.schema.names == ["secret", "other", "open"]
    assert_engines_return_all_rows(table)
    # With the keys, encrypted columns have bounds.
    assert table.plan("other < 0").files == []
    assert table.plan("secret > 'z'").files == []
    assert list(table.plan("other = 3", row_groups=True).row_groups.values()) == [[0]] * PARTS
    # A KMS client without a connection config works too.
    assert ps.open_table(str(folder), decryption=Kms({})).plan("other = 3").to_arrow()["open"].to_pylist() == [3]


def test_an_index_of_encrypted_columns_must_expose_them(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    for kind in ("sieve", "bloom", "both", "auto"):
        with pytest.raises(ps.UnsupportedError, match="expose="):
            table.build_index("secret", kind=kind)
        # Naming another column is not enough.
        with pytest.raises(ps.UnsupportedError, match=r"is encrypted\. An index reveals .* pass expose=") as caught:
            table.build_index(["secret", "other"], kind=kind, expose="other")
        assert "decryption=" not in str(caught.value)
    assert table.index_stats() == {}
    stored = b"".join(path.read_bytes() for path in index_of(folder).rglob("*") if path.is_file())
    assert b"secret 0" not in stored
    assert table.build_index(["secret", "other"], kind="sieve", expose=["secret", "other"]).columns
    assert len(table.plan("secret = 'secret 00042'").files) == 1
    assert len(table.plan("other = 9").files) == 1
    assert_engines_return_all_rows(table)
    assert table.verify_index() == []
    # A reader without keys can use the index, but cannot verify it.
    without_keys = ps.open_table(str(folder))
    if has_plaintext_footers(folder):
        assert len(without_keys.plan("secret = 'secret 00042'").files) == 1
        assert {problem.loses_rows for problem in without_keys.verify_index()} == {False}


def test_an_index_of_an_expression_must_expose_it(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    for name in ("lower(secret)", "key(secret, open)"):
        with pytest.raises(ps.UnsupportedError, match=re.escape(f"expose={[name]}")):
            table.build_index(name)
        assert table.build_index(name, expose=[name]).columns


def has_plaintext_footers(folder: Path) -> bool:
    """Return whether the footers can be read without keys."""
    try:
        pq.ParquetFile(folder / "part-0.parquet").close()
    except OSError:
        return False
    return True


def test_an_update_reads_encrypted_columns_only_if_they_are_exposed(folder: Path) -> None:
    plain = folder / "part-9.parquet"
    pq.write_table(part(0).slice(0, 10), plain)
    wait_until_old(folder)
    table = ps.open_table(str(folder), decryption=service())
    table.build_index("secret", kind="both")
    # Only one of five files is not encrypted. Plans always keep the others.
    assert len(table.plan("secret = 'no such'", row_groups=False).files) == PARTS
    stored = b"".join(path.read_bytes() for path in index_of(folder).rglob("*") if path.is_file())
    assert b"secret 00001" not in stored
    table.update_index()
    assert len(table.plan("secret = 'no such'", row_groups=False).files) == PARTS
    table.update_index(expose="secret")
    assert table.plan("secret = 'no such'", row_groups=False).files == []
    assert len(table.plan("secret = 'secret 00041'", row_groups=False).files) == 1
    assert table.verify_index() == []


def test_plain_and_exposed_columns_are_indexed_together(tmp_path: Path) -> None:
    for number in range(PARTS):
        encrypted(tmp_path / f"part-{number}.parquet", part(number), plaintext_footer=True)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path), decryption=service())
    report = table.build_index(["open", "secret"], kind="sieve", expose="secret")
    assert report.columns == {"open": "sieve", "secret": "sieve"}
    assert table.verify_index() == []
    assert_engines_return_all_rows(table)
    with pytest.raises(ps.UnsupportedError, match="other"):
        table.build_index(["open", "other", "secret"], kind="sieve", expose="secret")


def test_keys_are_accepted_as_bytes(uniform: Path) -> None:
    table = ps.open_table(str(uniform), decryption=UNIFORM)
    assert_engines_return_all_rows(table)
    with pytest.raises(ps.UnsupportedError, match="expose="):
        table.build_index("open")
    with pytest.raises(ps.UnsupportedError, match="expose="):
        table.advise("open")
    [advice] = ps.advise(str(uniform), "open", decryption=UNIFORM, expose="open")
    assert advice.sampled == PARTS
    table.build_index("open", kind="sieve", expose="open")
    assert len(table.plan("open = 5").files) == 1
    assert table.verify_index() == []
    # Filters that were added with the same keys are used.
    ps.add_filters(uniform / "part-0.parquet", columns="secret", encryption=UNIFORM, existing="replace")
    wait_until_old(uniform)
    plan = ps.open_table(str(uniform), decryption=UNIFORM).plan("secret = 'secret 00001x'")
    assert not any(path.endswith("part-0.parquet") for path in plan.files)


@pytest.mark.parametrize("index", [None, "sieve", "bloom"])
def test_random_predicates_on_encrypted_files_lose_no_row(tmp_path: Path, index: str | None) -> None:
    """As for unencrypted tables, compare every engine with a full read."""
    random_ = random.Random(str(index))
    properties = pe.create_encryption_properties(UNIFORM["footer_key"])
    parts = [some_rows(random_, 20, first=number * 30) for number in range(4)]
    for number, table in enumerate(parts):
        # One of the files is not encrypted.
        options = {} if number == 2 else {"encryption_properties": properties}
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=6, **options)
    ps.add_filters(tmp_path / "part-1.parquet", columns=["id", "name"], encryption=UNIFORM)
    wait_until_old(tmp_path)
    opened = ps.open_table(str(tmp_path), decryption=UNIFORM)
    full = opened.plan().to_arrow()
    assert texts(full) == texts(pa.concat_tables(parts))
    if index is not None:
        opened.build_index(INDEXED, kind=index, expose=INDEXED)
        assert opened.verify_index() == []
    check_plans(opened, full, random_, 12)


def test_keys_of_single_columns_are_accepted_as_bytes(tmp_path: Path) -> None:
    used_keys = encrypted(tmp_path / "part-0.parquet", part(0))
    wait_until_old(tmp_path)
    keys = {"footer_key": used_keys["footer"], "column_keys": {"secret": used_keys["one"], "other": used_keys["two"]}}
    plan = ps.open_table(str(tmp_path), decryption=keys).plan("other = 8")
    assert plan.to_arrow()["secret"].to_pylist() == ["secret 00008"]
    fewer = {"footer_key": used_keys["footer"], "column_keys": {"other": used_keys["two"]}}
    table = ps.open_table(str(tmp_path), decryption=fewer)
    assert table.plan("other < 0").files == []
    assert len(table.plan("secret = 'no such'").files) == 1
    assert table.plan("other = 8").to_arrow(["open"])["open"].to_pylist() == [8]
    with pytest.raises(ps.DecryptionError, match="one"):
        table.plan("other = 8").to_arrow()


def test_plain_files_need_no_footer_key(tmp_path: Path) -> None:
    pq.write_table(part(0), tmp_path / "part-0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path), decryption={"column_keys": {"secret": bytes(16)}})
    assert table.plan("other = 8").to_arrow()["secret"].to_pylist() == ["secret 00008"]
    assert table.build_index("secret", kind="sieve").columns == {"secret": "sieve"}


REAL = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing" / "no-bloom"


@pytest.mark.skipif(not REAL.exists(), reason="the files of apache/parquet-testing are not on this machine")
def test_encrypted_files_of_other_writers_are_read(tmp_path: Path) -> None:
    """If no KMS wrapped the keys, pyarrow accepts a footer key but no column keys."""
    keys = {"footer_key": b"0123456789012345", "column_keys": {"double_field": b"1234567890123450"}}
    for name in ("uniform_encryption", "encrypt_columns_plaintext_footer"):
        data = (REAL / f"{name}.parquet.encrypted").read_bytes()
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-0.parquet").write_bytes(data)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path / "uniform_encryption"), decryption=keys)
    assert table.plan("double_field >= 0").to_arrow(["double_field"]).num_rows > 0
    assert table.plan("double_field < -1e9").files == []
    table = ps.open_table(str(tmp_path / "encrypt_columns_plaintext_footer"), decryption=keys)
    assert table.plan("double_field < -1e9").files == []
    with pytest.raises(ps.DecryptionError, match="only from a KMS"):
        table.plan("double_field >= 0").to_arrow(["double_field"])


def test_keys_that_pyarrow_cannot_use_fail_with_an_explanation(tmp_path: Path) -> None:
    used_keys = encrypted(tmp_path / "part-0.parquet", part(0), plaintext_footer=True, double_wrapping=True)
    wait_until_old(tmp_path)
    keys = {"footer_key": used_keys.get("footer", bytes(16)), "column_keys": {"secret": bytes(16)}}
    with pytest.raises(ps.ParsieveError):
        ps.open_table(str(tmp_path), decryption=keys).plan("open = 8").to_arrow()
    # Opaque keys open footers and filters, but cannot be used to read rows.
    sealed = ps.FileKeys.from_kms(tmp_path / "part-0.parquet", Kms({}))
    with pytest.raises(ps.UnsupportedError, match="as a dict"):
        _ = ps.open_table(str(tmp_path), decryption=sealed).plan("open = 8").to_arrow()


@pytest.mark.parametrize("where", list(CONDITIONS))
def test_wrong_keys_skip_nothing(folder: Path, uniform: Path, where: str) -> None:
    class WrongKeys(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            return bytes(16)

    class Unavailable(Kms):
        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            raise RuntimeError("the key service is not available")

    # The fixture `uniform` has replaced the files of `folder`, so the keys of `folder` do not open them.
    for keys in ({"footer_key": bytes(16)}, {"footer_key": b"fedcba9876543210", "column_keys": {"open": bytes(16)}}):
        with pytest.raises(ps.DecryptionError):
            ps.open_table(str(uniform), decryption=keys).plan(where)
    for number in range(PARTS):
        encrypted(folder / f"part-{number}.parquet", part(number), plaintext_footer=True)
    wait_until_old(folder)
    for client in (WrongKeys({}), Unavailable({})):
        for read in (ps.Plan.to_arrow, lambda plan: plan.to_polars().collect(), ps.Plan.to_duckdb):
            with pytest.raises(ps.DecryptionError):
                read(ps.open_table(str(folder), decryption=client).plan(where))
    # The schema is known, as in a table that was opened before the keys changed.
    table = ps.open_table(str(folder), decryption=service())
    assert table.plan(where).to_arrow().num_rows == ALL_ROWS.filter(CONDITIONS[where]).num_rows
    for client in (WrongKeys({}), Unavailable({})):
        from parsieve.lake.storage.keys import TableKeys

        table = ps.open_table(str(folder), decryption=service())
        _ = table.schema
        table.opened.lake.keys = TableKeys(client)
        plan = table.plan(where)
        assert len(plan.files) == PARTS
        assert "footer cannot be read" in plan.explain()


def test_a_wrong_key_of_one_column_fails(tmp_path: Path) -> None:
    used_keys = encrypted(tmp_path / "part-0.parquet", part(0), plaintext_footer=True)
    wait_until_old(tmp_path)
    keys = {"footer_key": used_keys["footer"], "column_keys": {"secret": bytes(16), "other": used_keys["two"]}}
    table = ps.open_table(str(tmp_path), decryption=keys)
    with pytest.raises(ps.DecryptionError):
        table.plan("open = 4").to_arrow()


def test_plain_and_encrypted_files_are_read_together(uniform: Path) -> None:
    pq.write_table(part(1), uniform / "part-1.parquet")
    wait_until_old(uniform)
    assert_engines_return_all_rows(ps.open_table(str(uniform), decryption=UNIFORM))


def test_encrypted_tables_have_no_dataset(uniform: Path) -> None:
    with pytest.raises(ps.UnsupportedError, match="to_arrow"):
        ps.open_table(str(uniform), decryption=UNIFORM).plan("open = 3").to_dataset()


@pytest.mark.parametrize("format", ["delta", "iceberg", "hudi"])
def test_other_table_formats_reject_keys(tmp_path: Path, format: str) -> None:
    with pytest.raises(ps.UnsupportedError, match="Spark"):
        ps.open_table(str(tmp_path), format, decryption=UNIFORM)


def test_invalid_keys_are_rejected(tmp_path: Path) -> None:
    for invalid in (5, "key", b"0123456789abcdef"):
        with pytest.raises(TypeError, match="decryption"):
            ps.open_table(str(tmp_path), decryption=invalid)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ps.open_table(str(tmp_path), decryption={"key": bytes(16)})
    with pytest.raises(TypeError, match="unwrap_key"):
        ps.open_table(str(tmp_path), decryption=(5, None))


def test_a_pickled_lake_contains_no_keys(uniform: Path) -> None:
    """A lake that is sent to other processes loses its keys."""
    import pickle

    table = ps.open_table(str(uniform), decryption=UNIFORM)
    sent = pickle.dumps(table.opened.lake)
    assert UNIFORM["footer_key"] not in sent
    assert pickle.loads(sent).keys is None


def test_the_command_line_accepts_a_key_file(
    uniform: Path, tmp_path_factory: pytest.TempPathFactory, capsys: Any
) -> None:
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


def test_a_refused_column_key_leaves_the_other_columns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Partial(Kms):
        refuses = True
        num_refused = 0

        def unwrap_key(self, wrapped: bytes | str, name: str) -> bytes:
            if name == "two" and self.refuses:
                self.num_refused += 1
                raise PermissionError("no right to use key two")
            return super().unwrap_key(wrapped, name)

    monkeypatch.setattr(kms, "REFUSED_SECONDS", math.inf)
    client = Partial({})
    table = ps.open_table(str(folder), decryption=client)
    assert table.plan("open < 0 AND secret < 'a'").files == []
    plan = table.plan("secret = 'secret 00042'")
    assert plan.to_arrow(["secret", "open"]).num_rows == 1
    assert {keep.doubt for keep in plan.kept} == {()}
    plan = table.plan("other < 0")
    assert len(plan.files) == PARTS
    reason = "its statistics of other are encrypted; the KMS returned no key for them"
    assert all(keep.doubt[0].startswith(reason) and "no right to use key two" in keep.doubt[0] for keep in plan.kept)
    num_refused = client.num_refused
    assert len(table.plan("other < 1").files) == PARTS
    assert client.num_refused == num_refused
    with pytest.raises(PermissionError, match="two"):
        plan.to_arrow()
    # The failure may be temporary.
    monkeypatch.setattr(kms, "REFUSED_SECONDS", 0.0)
    client.refuses = False
    assert table.plan("other < 0").files == []
    assert table.plan("other = 9").to_arrow()["other"].to_pylist() == [9]


def test_missing_and_wrong_column_keys_are_named(tmp_path: Path) -> None:
    keys = encrypted(tmp_path / "part-0.parquet", part(0))
    wait_until_old(tmp_path)
    wrong = {"footer_key": keys["footer"], "column_keys": {"secret": keys["one"], "other": bytes(16)}}
    with pytest.raises(ps.DecryptionError, match=r"part-0\.parquet: a key is missing or wrong; check footer_key"):
        ps.open_table(str(tmp_path), decryption=wrong).plan("open = 8")
    [keep] = ps.open_table(str(tmp_path), decryption={"footer_key": keys["footer"]}).plan("other < 0").kept
    assert keep.doubt == (
        "its statistics of other are encrypted; decryption= has no key that decrypts and verifies them",
    )


def test_plans_count_the_requests_for_key_material(folder: Path) -> None:
    table = ps.open_table(str(folder), decryption=service())
    _ = table.schema
    before = ps.metrics()
    plan = table.plan("other = 3", row_groups=True)
    spent = ps.metrics() - before
    assert plan.requests == spent.requests == 2 * PARTS
    assert plan.bytes_fetched == spent.bytes_read
