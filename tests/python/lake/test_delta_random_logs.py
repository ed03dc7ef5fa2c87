"""Random logs of Delta tables: the files of a snapshot against the same actions replayed one by one, and deltalake."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from parsieve.lake import open_lake
from parsieve.lake.delta import statistics
from parsieve.lake.delta.slices import DeltaSlices

PATHS = ["a", "b%20c", "day=x%2Fy/d", "%C3%BC", "e f", 'q"\\', "ü😀", "file:///elsewhere/g", "s3://bucket/h"]
STATS = [None, "", "{", '{"numRecords":3}', '{"numRecords": 4, "minValues":{"id":"\\"\\u00fc"}}']
# Ways to write a line that the compiled reader leaves to Python. Of two members with one name, the last one counts.
UNUSUAL = [('"size":', '"size":0,"size":'), ('"path":', '"p\\u0061th":'), ('"add":', '"x":null,"add":')]
UNUSUAL += [('"modificationTime":', '"modificationTime":1e0,"modificationTime":')]


def random_add(random_: random.Random, path: str, vector: dict[str, Any] | None) -> dict[str, Any]:
    add: dict[str, Any] = {
        "path": path,
        "partitionValues": {"day": random_.choice([None, "", "x y", "ü\t"])},
        "size": random_.randrange(1, 2**40),
        "modificationTime": random_.randrange(1_600_000_000_000, 1_700_000_000_000),
        "dataChange": random_.random() < 0.5,
        "stats": random_.choice(STATS),
        "tags": {"x": None, "y": "1"},
    }
    add |= {} if vector is None else {"deletionVector": vector}
    names = random_.sample(list(add), len(add))
    return {name: add[name] for name in names if name != "tags" or random_.random() < 0.5}


def random_vector(random_: random.Random) -> dict[str, Any] | None:
    if random_.random() < 0.8:
        return None
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 36, "cardinality": 2}
    return vector | ({"offset": random_.randrange(2)} if random_.random() < 0.7 else {})


def random_actions(random_: random.Random, live: set[str], is_valid: bool) -> list[dict[str, Any]]:
    """Return the actions of a commit. If it is valid, each file has one action, and only present files are removed."""
    actions: list[dict[str, Any]] = []
    used: set[str] = set()
    for _ in range(random_.choice([0, 1, 20])):
        path = random_.choice(PATHS) + str(random_.randrange(3))
        vector = None if is_valid else random_vector(random_)
        if random_.random() < 0.2:
            actions.append(random_.choice([{"commitInfo": {"operation": [[{"path": "x"}]]}}, {"add": None, "cdc": {}}]))
        if is_valid and path in used:
            continue
        used.add(path)
        if random_.random() < 0.4 and (path in live or not is_valid):
            live.discard(path)
            remove = {"path": path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
            actions.append({"remove": remove | ({} if vector is None else {"deletionVector": vector})})
        elif path not in live or not is_valid:
            live.add(path)
            actions.append({"add": random_add(random_, path, vector)})
    return [action for action in actions if not is_valid or "cdc" not in action]


def write_random_log(folder: Path, random_: random.Random, is_valid: bool) -> int:
    """Write some commits, and return the last version."""
    log = folder / "_delta_log"
    log.mkdir()
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "string", "nullable": True, "metadata": {}} for name in ("id", "day")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    about = {"id": "x", "format": {"provider": "parquet", "options": {}}, "configuration": {}, "createdTime": 0}
    first: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": about | {"schemaString": schema, "partitionColumns": ["day"]}},
    ]
    live: set[str] = set()
    last = random_.randrange(2, 8)
    for version in range(last + 1):
        actions = [*(first if version == 0 else ()), *random_actions(random_, live, is_valid)]
        separators = random_.choice([(",", ":"), (", ", ": "), (" , ", "  : ")])
        lines = [json.dumps(action, ensure_ascii=random_.random() < 0.5, separators=separators) for action in actions]
        if not is_valid and random_.random() < 0.3:
            lines = [line.replace(*random_.choice(UNUSUAL), 1) for line in lines]
        text = random_.choice(["\n", "\r\n", "\n \t\n"]).join(lines)
        (log / f"{version:020}.json").write_bytes(text.encode())
    return last


def replayed(folder: Path, version: int) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the `add` actions of the present files, by path and deletion vector."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    for number in range(version + 1):
        for line in (folder / "_delta_log" / f"{number:020}.json").read_bytes().splitlines():
            action = json.loads(line) if line.strip() else {}
            if file_action := action.get("add") or action.get("remove"):
                vector = file_action.get("deletionVector")
                offset = "" if vector is None or "offset" not in vector else f"@{vector['offset']}"
                vector_id = "" if vector is None else f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"
                key = unquote(file_action["path"]), vector_id
                files.pop(key, None)
                if action.get("add"):
                    files[key] = file_action
    return files


def files_of(slices: Any) -> list[tuple[object, ...]]:
    """Return the path, token, day and number of rows of each file, sorted."""
    assert isinstance(slices, DeltaSlices)
    [day] = [[texts.column.values[at] for at in texts.column.numbers.to_pylist()] for texts in slices._texts.values()]
    columns = (slices.group.to_pylist(), slices.token.to_pylist(), map(str, day), map(str, slices.num_rows.to_pylist()))
    return sorted(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_random_logs_have_the_files_of_all_actions(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    is_valid = seed % 3 == 0
    last = write_random_log(tmp_path, random_, is_valid)
    lake = open_lake(str(tmp_path))
    # The last snapshot may continue from an earlier one.
    for version in sorted({random_.randrange(last + 1), last}):
        expected = sorted(
            (
                path,
                f"{add['size']}-{add['modificationTime']}-{vector}",
                str(add["partitionValues"]["day"]),
                str(statistics._parsed(add["stats"]).get("numRecords")),
            )
            for (path, vector), add in replayed(tmp_path, version).items()
        )
        assert files_of(lake.snapshot(version).slices) == expected
    if is_valid:
        table = DeltaTable(str(tmp_path))
        sizes = pa.chunked_array(table.get_add_actions().column("size_bytes")).to_pylist()
        assert sorted(sizes) == sorted(lake.snapshot().slices.size.to_pylist())
        table.create_checkpoint()
        for version in range(last):
            (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
        assert files_of(open_lake(str(tmp_path)).snapshot().slices) == expected
