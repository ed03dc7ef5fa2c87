"""Arrow C++ reads our filters, plain and encrypted. A C++ program reads them, as pyarrow has no API for filters."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.encrypted_files import TABLE, encrypted

import parsieve as ps

LIBRARY = Path(pa.__file__).parent


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the program with the Arrow C++ libraries of pyarrow."""
    libraries = [sorted(LIBRARY.glob(f"lib{name}.so.*")) for name in ("parquet", "arrow")]
    compiler = shutil.which("g++")
    if compiler is None or not all(libraries):
        pytest.skip("needs g++ and the shared libraries of pyarrow for Linux")
    program = tmp_path_factory.mktemp("reader") / "arrow_filters"
    source = Path(__file__).with_name("arrow_filters.cc")
    command = [compiler, "-std=c++20", f"-I{LIBRARY / 'include'}", str(source), "-o", str(program)]
    command += [str(paths[0]) for paths in libraries] + [f"-Wl,-rpath,{LIBRARY}"]
    subprocess.run(command, check=True, timeout=500)
    return program


def read(reader: Path, path: Path, *keys: str) -> dict[tuple[int, str], bytes]:
    done = subprocess.run([reader, path, *keys], capture_output=True, text=True, timeout=500)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    lines = [line.split(" ") for line in done.stdout.splitlines()]
    return {(int(number), name): bytes.fromhex(data) for number, name, data in lines}


def test_arrow_reads_our_filters(reader: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"k": range(3000), "s": [f"key {n}" for n in range(3000)], "l": [[n, n + 1] for n in range(3000)]})
    pq.write_table(table, path, row_group_size=1000)
    ps.add_filters(path, columns=["k", "s", "l.list.element"])
    arrow_filters = read(reader, path)
    assert len(arrow_filters) == 9
    with ps.open_filters(path) as filters:
        for (number, name), theirs in arrow_filters.items():
            ours = filters.filter(number, name)
            assert ours is not None
            assert memoryview(ps.BloomFilter.from_bytes(theirs)) == memoryview(ours)
            assert ours.estimated_ndv > 900


@pytest.mark.parametrize("bits", [128, 192, 256])
@pytest.mark.parametrize("plaintext_footer", [False, True])
@pytest.mark.parametrize("algorithm", ["AES_GCM_V1", "AES_GCM_CTR_V1"])
def test_arrow_decrypts_our_filters(
    reader: Path, tmp_path: Path, algorithm: str, plaintext_footer: bool, bits: int
) -> None:
    path = tmp_path / "t.parquet"
    seen = encrypted(path, encryption_algorithm=algorithm, plaintext_footer=plaintext_footer, data_key_length_bits=bits)
    keys: dict[Any, bytes] = {"secret": seen["one"], "other": seen["two"]}
    ours = ps.FileKeys(seen["footer"], keys)
    ps.add_filters(path, columns=["secret", "other"], encryption=ours)
    as_text = [seen["footer"].hex(), *(f"{name}={key.hex()}" for name, key in keys.items())]
    arrow_filters = read(reader, path, *as_text)
    assert len(arrow_filters) == 4
    with ps.open_filters(path, ours) as filters:
        for (number, name), theirs in arrow_filters.items():
            parsed = ps.BloomFilter.from_bytes(theirs, type=TABLE.schema.field(name).type)
            assert memoryview(parsed) == memoryview(filters.filter(number, name))  # type: ignore[arg-type]
            assert parsed.check(TABLE[name].slice(1000 * number, 1000)).false_count == 0

    with pytest.raises(RuntimeError):
        read(reader, path, as_text[0], f"secret={'00' * len(seen['one'])}", as_text[2])
