"""Compare hashes with tests/vectors/hashes.json, which an independent script wrote."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.models import oracle

import parsieve as ps

FOLDER = Path(__file__).parents[2] / "vectors"
CASES = json.loads((FOLDER / "hashes.json").read_text(encoding="utf-8"))

DECIMALS = {
    "decimal32": pa.decimal32,
    "decimal64": pa.decimal64,
    "decimal128": pa.decimal128,
    "decimal256": pa.decimal256,
}


def arrow_type(name: str, **parameters: Any) -> Any:
    if name in DECIMALS:
        return DECIMALS[name](parameters["precision"], parameters["scale"])
    if name == "timestamp":
        return pa.timestamp(parameters["unit"], parameters["zone"])
    if name == "fixed_size_binary":
        return pa.binary(parameters["width"])
    return getattr(pa, name)(*parameters.values())


def raw(entry: dict[str, Any] | None, data_type: Any) -> oracle.Raw:
    if entry is None:
        return None
    if oracle.is_bytes(data_type):
        return bytes.fromhex(entry["value"]) * int(entry.get("repeat", 1))
    return int(str(entry["value"]), 0)


def column(case: dict[str, Any]) -> Any:
    data_type = arrow_type(**case["arrow"])
    storage = getattr(data_type, "storage_type", data_type)
    array = oracle.array_of(storage, [raw(entry, storage) for entry in case["values"]])
    return array if storage == data_type else pa.ExtensionArray.from_storage(data_type, array)


def ids(case: dict[str, Any]) -> str:
    return " ".join(str(part) for part in [*case["arrow"].values(), case["physical_type"] or "default"])


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_hashes_equal_the_vectors(case: dict[str, Any]) -> None:
    expected = [None if entry is None else int(entry["hash"], 16) for entry in case["values"]]
    array = column(case)
    assert len(array) == len(expected) >= 2
    assert ps.hash_column(array, case["physical_type"]).to_pylist() == expected
    # A filter with the physical type of the file contains the same hashes.
    types = {} if case["physical_type"] is None else {"type": array.type, "physical_type": case["physical_type"]}
    filter = ps.BloomFilter(num_bytes=96, **types)
    filter.insert(array)
    assert bytes(memoryview(filter)) == oracle.bitset(expected, 3)


def is_modelled(case: dict[str, Any]) -> bool:
    converted_float = case["arrow"]["name"].startswith("float") and case["physical_type"] is not None
    return case["arrow"]["name"] != "uuid" and case["physical_type"] != "FIXED_LEN_BYTE_ARRAY" and not converted_float


@pytest.mark.parametrize("case", [case for case in CASES if is_modelled(case)], ids=ids)
def test_the_model_of_the_other_tests_gives_the_same_hashes(case: dict[str, Any]) -> None:
    data_type = arrow_type(**case["arrow"])
    raws = [raw(entry, data_type) for entry in case["values"]]
    expected = [entry and int(entry["hash"], 16) for entry in case["values"]]
    assert oracle.hashes_of(data_type, raws, case["physical_type"]) == expected


def test_every_type_of_the_model_has_vectors() -> None:
    seen = {case["arrow"]["name"] for case in CASES}
    types = {str(data_type).split("[")[0].split("(")[0] for data_type in oracle.TYPES}
    renamed = {"halffloat": "float16", "float": "float32", "double": "float64"}
    assert {renamed.get(name, name) for name in types} <= seen


def test_the_script_writes_the_same_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "make_hashes.py"
    script.write_bytes((FOLDER / "make_hashes.py").read_bytes())
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert json.loads((tmp_path / "hashes.json").read_text(encoding="utf-8")) == CASES
