"""Shallow clones of Delta tables, whose files are in other folders or buckets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from urllib.parse import quote

import fsspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.delta_vectors import add_actions, write_table_with_vectors, write_vector
from support.models.lake_truth import commit

from parsieve.lake import Snapshot, open_lake
from parsieve.lake.delta.slices import place_of
from parsieve.lake.storage.storage import Storage


# The names of partition folders have escapes of their own.
@pytest.mark.parametrize("folder", ["source", "a b", "day=x%2Fy", "a?b#c", "ü"])
def test_a_clone_reads_files_of_another_folder(tmp_path: Path, folder: str) -> None:
    source, clone = tmp_path / "source", tmp_path / "clone"
    write_deltalake(str(source), pa.table({"a": [1, 2]}))
    shutil.copytree(source / "_delta_log", clone / "_delta_log")
    name = clone / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in name.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            file = source / action["add"]["path"]
            moved = tmp_path / folder / file.name
            moved.parent.mkdir(exist_ok=True)
            action["add"]["path"] = file.rename(moved).as_uri()
    name.write_text("\n".join(map(json.dumps, actions)))
    lake = open_lake(clone)
    snapshot = lake.snapshot()
    assert lake.read(snapshot, snapshot.slices).read_all()["a"].to_pylist() == [1, 2]
    assert isinstance(snapshot, Snapshot)


# The names of the objects have escapes of their own, so the log escapes them twice.
@pytest.mark.parametrize("folder", ["a b", "day=x%2Fy", "a?b#c", "ü"])
@pytest.mark.parametrize("remote", [False, True])
def test_a_clone_reads_deleted_rows_of_another_folder(tmp_path: Path, folder: str, remote: bool) -> None:
    write_table_with_vectors(tmp_path / "t", 8)
    _, second = add_actions(tmp_path / "t")
    vector = write_vector(tmp_path / "t", [1, 3])
    binary = next((tmp_path / "t" / "ab").iterdir())
    for file in (tmp_path / "t" / second["path"], binary):
        (tmp_path / folder).mkdir(exist_ok=True)
        file.rename(tmp_path / folder / file.name)
    prefix = (tmp_path / folder).as_uri()
    if remote:
        memory = fsspec.filesystem("memory")
        for file in (tmp_path / folder).iterdir():
            memory.pipe_file(f"/{tmp_path.name}/{folder}/{file.name}", file.read_bytes())
            file.unlink()
        prefix = f"memory://{tmp_path.name}/{quote(folder)}"
    vector |= {"storageType": "p", "pathOrInlineDv": f"{prefix}/{binary.name}"}
    path = f"{prefix}/{second['path'].rpartition('/')[2]}"
    commit(
        tmp_path / "t",
        {"remove": {"path": second["path"], "dataChange": True}},
        {"add": second | {"path": path, "deletionVector": vector}},
    )
    lake = open_lake(tmp_path / "t")
    snapshot = lake.snapshot()
    rows = lake.read(snapshot, snapshot.slices).read_all()
    # The second and the fourth row of one partition are deleted.
    assert sorted(rows["id"].to_pylist()) in ([0, 1, 3, 4, 5, 7], [0, 1, 2, 4, 5, 6])
    assert [f"/{folder}/" in str(data_slice.path) for data_slice in snapshot.slices].count(True) == 1


@pytest.mark.parametrize("key", ["a b/c", "day=x%2Fy/c", "a?b#c", "ü"])
def test_files_of_other_buckets_are_opened_with_the_options_of_the_table(key: str) -> None:
    table = Storage("s3://bucket/table", {"aws_region": "eu-west-1", "aws_skip_signature": "true"})
    storage, place = place_of(table, f"s3://other/{key}")
    assert (storage.filesystem.config["bucket"], storage.filesystem.prefix, place) == ("other", None, key)
    assert storage.address(place) == f"s3://other/{key}"
    assert place_of(table, "s3://other/x")[0] is storage
