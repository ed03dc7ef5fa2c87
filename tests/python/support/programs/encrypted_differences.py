"""Read random encrypted folders through plans, with keys and without, and compare the rows with the ones written.

`python tests/python/support/programs/encrypted_differences.py --conditions 10000 --seed 1` prints each difference with
the number of its table, and a summary. In each folder, files differ in their encryption: none, encrypted or plaintext
footers, all columns or some of them, both algorithms, and keys of all lengths. Without keys, a plan keeps every file
with a row, and reading it returns the right rows or raises an error.
"""

from __future__ import annotations

import logging
import random
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

import parsieve as ps
from parsieve.predicate import Expr
from support import differences
from support.encrypted_files import Kms
from support.models.lake_truth import rows as row_texts
from support.models.odd_values import odd_value
from support.models.plan_truth import random_predicate
from support.models.predicate_reference import rows as matching
from support.models.table_states import UID, Column, LiveRow, State, check_condition, difference

PER_TABLE = 20
TYPES = [pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.bool_()]
TYPES += [pa.date32(), pa.timestamp("us"), pa.decimal128(9, 2)]
# Errors that a reader without keys may raise.
REFUSALS = (ps.DecryptionError, ps.UnsupportedError)


def write_file(chance: random.Random, path: Path, table: pa.Table) -> None:
    """Write a file that is encrypted in a random way, or not at all."""
    options: dict[str, Any] = {
        "row_group_size": chance.choice([2, 5, 1000]),
        "use_dictionary": chance.random() < 0.5,
        "data_page_size": chance.choice([10, 1000]),
        "compression": chance.choice(["none", "snappy", "zstd"]),
    }
    if chance.random() < 0.2:
        pq.write_table(table, path, **options)
        return
    keys: dict[str, list[str]] = {}
    for name in table.column_names:
        if chance.random() < 0.5:
            keys.setdefault(chance.choice(["one", "two"]), []).append(name)
    config = pe.EncryptionConfiguration(
        footer_key="footer",
        encryption_algorithm=chance.choice(["AES_GCM_V1", "AES_GCM_CTR_V1"]),
        plaintext_footer=chance.random() < 0.5,
        double_wrapping=chance.random() < 0.5,
        data_key_length_bits=chance.choice([128, 192, 256]),
        **({"column_keys": keys} if keys else {"uniform_encryption": True}),
    )
    factory = pe.CryptoFactory(lambda _: Kms({}))
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(table, path, encryption_properties=properties, **options)


def make_folder(chance: random.Random, folder: Path) -> tuple[State, bool]:
    """Write random files, and return their rows and whether a reader without keys can open the folder."""
    folder.mkdir()
    columns = [Column(0, UID, pa.int64())]
    columns += [Column(number, f"c{number}", chance.choice(TYPES)) for number in range(1, chance.randrange(3, 7))]
    rows: list[LiveRow] = []
    can_be_opened = True
    for number in range(chance.choice([2, 4, 6])):
        path = folder / f"{number}.parquet"
        same = {column.id: odd_value(chance, column.type) for column in columns}
        new = [_row(chance, columns, same, len(rows) + place) for place in range(chance.choice([1, 8, 30]))]
        arrays = [pa.array([row[column.id] for row in new], column.type) for column in columns]
        write_file(chance, path, pa.table(arrays, [column.name for column in columns]))
        # The last bytes of a file whose footer is encrypted.
        can_be_opened &= not path.read_bytes().endswith(b"PARE")
        rows += [LiveRow(row, path) for row in new]
    return State(columns, rows), can_be_opened


def _row(chance: random.Random, columns: Sequence[Column], same: dict[int, Any], uid: int) -> dict[int, Any]:
    row = {
        column.id: same[column.id] if chance.random() < 0.5 else odd_value(chance, column.type) for column in columns
    }
    return row | {0: uid}


def build_index(chance: random.Random, table: ps.Table, state: State) -> None:
    """Build an index of some columns."""
    kind = chance.choice(["sieve", "bloom"])
    # Parquet has no Bloom filters of booleans.
    names = [column.name for column in state.columns if kind == "sieve" or not pa.types.is_boolean(column.type)]
    names = chance.sample(names, min(len(names), 3))
    table.build_index(names, kind, expose=names, progress=False)


def check_without_keys(table: ps.Table, state: State, condition: Expr) -> None:
    """Check that a reader without keys loses no row."""
    hits = matching(condition, state.table)
    plan = table.plan(condition)
    lost = {state.rows[hit].path for hit in hits} - set(map(Path, plan.files))
    assert not lost, f"without keys, the plan skips files with rows: {sorted(map(str, lost))}: {plan.explain()}"
    try:
        found = row_texts(plan.to_arrow().select(state.table.column_names))
    except REFUSALS:
        return
    expected = row_texts(state.table.take(pa.array(hits, pa.int64())))
    assert found == expected, f"without keys, {difference(found, expected)}: {plan.explain()}"


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    chance = random.Random(seed)
    wrong = skipped = 0
    with warnings.catch_warnings():
        # Plans without keys warn about the files that they cannot open.
        warnings.simplefilter("ignore")
        state, can_be_opened = make_folder(chance, folder / "t")
        table = ps.open_table(folder / "t", decryption=Kms({}))
        without_keys = ps.open_table(folder / "t") if can_be_opened else None
        for _ in range(PER_TABLE):
            condition = random_predicate(chance, state.table)
            try:
                if chance.random() < 0.1:
                    build_index(chance, table, state)
                skipped += check_condition(table, condition, state, chance)
                if without_keys is not None:
                    check_without_keys(without_keys, state, condition)
            except Exception as error:
                wrong += 1
                about = error if isinstance(error, AssertionError) else "".join(traceback.format_exception(error))
                print(f"{seed}: {condition}: {about}", flush=True)
    return wrong, skipped


if __name__ == "__main__":
    # An index warns about the files that it leaves out.
    logging.getLogger("parsieve").setLevel(logging.ERROR)
    differences.run(__doc__, check_table, PER_TABLE, "files")
