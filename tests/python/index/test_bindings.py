"""Bindings in format 2: every slice that was read has its own id, and damaged bindings are never trusted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from parsieve._core import FormatError, UnsupportedError
from parsieve.index import LocalStore
from parsieve.index.log import bindings
from parsieve.index.log.bindings import BINDINGS, Bindings
from parsieve.index.log.parts import MAX_IDS, Part
from parsieve.io import document
from parsieve.lake.base import Location, Slice
from parsieve.lake.slices import Slices


def place(number: int) -> Location:
    return Location(f"p={number % 3}", f"f{number}")


def slice_at(location: Location, token: str) -> Slice:
    return Slice(location.partition, location.group, token, None, None, None, True, {}, None)


def test_random_updates_read_back_as_written_and_never_reuse_an_id(tmp_path: Path) -> None:
    r = random.Random(5)
    store = LocalStore(tmp_path)
    locations = sorted(place(number) for number in range(20))
    bound = Bindings.fresh(locations, dict.fromkeys(locations, "t0"))
    assert bound.live_ids() == list(range(20))
    chain = bindings.write(store, (), bindings.NOTHING, bound)
    # The location and the token that each id was given to.
    owners = {slice_id: (location, "t0") for location, slice_id in (bound.ids or {}).items()}
    fulls = 0
    for step in range(40):
        tokens = dict(bound.tokens)
        for location in r.sample(sorted(tokens), min(len(tokens), r.randrange(3))):
            del tokens[location]
        read = sorted({place(r.randrange(40)) for _ in range(r.randrange(4))})
        tokens |= {location: r.choice([f"t{step}", ""]) for location in read}
        # A file that got new filters has a new token and the same rows, so it keeps its id.
        renewed = sorted(set(tokens) & set(bound.tokens) - set(read))[: r.randrange(2)]
        tokens |= dict.fromkeys(renewed, f"renewed{step}")
        after = bound.after(tokens, read)
        before_chain, chain = chain, bindings.write(store, chain, bound, after)
        stored = bindings.read(store, chain)
        assert stored == after
        # Columns find the same locations with the same tokens.
        asked = [slice_at(place(number), r.choice(["t0", f"t{step}", ""])) for number in range(41)]
        columns = stored.columns
        assert columns is not None
        assert columns.ids is not None
        found = columns.ids.take(columns.positions(Slices.of(asked))).to_pylist()
        assert found == [
            (after.ids or {})[at.location] if at.token and after.tokens.get(at.location) == at.token else None
            for at in asked
        ]
        # Earlier chains still have the earlier bindings.
        assert bindings.read(store, before_chain) == bound
        fulls += len(chain) == 1
        for location, slice_id in (after.ids or {}).items():
            if location in read:
                assert slice_id not in owners
                owners[slice_id] = (location, after.tokens[location])
            else:
                assert slice_id == (bound.ids or {})[location]
        assert after.live_ids() == sorted((after.ids or {})[at] for at, token in after.tokens.items() if token)
        bound = after
    assert 1 < fulls < 20
    assert bound.next_id == len(owners)


def put(store: LocalStore, name: str, content: dict[str, Any], version: int = 2) -> Part:
    return Part.put(store, f"{BINDINGS}/{name}", document.write(BINDINGS, content, version))


def test_malformed_bindings_are_refused(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    def content(*groups: list[Any], next_id: Any = 2, full: bool = True) -> dict[str, Any]:
        return {"full": full, "bound": [{"partition": "", "groups": list(groups)}], "gone": [], "next_id": next_id}

    good = put(store, "good", content(["a", "t", 0], ["b", "t", 1]))
    assert bindings.read(store, [good]).ids == {Location("", "a"): 0, Location("", "b"): 1}
    wrong = {
        "the same id": content(["a", "t", 1], ["b", "t", 1]),
        "out of range": content(["a", "t", 2]),
        "is out of range": content(["a", "t", -1]),
        "id is out of range": content(["a", "t", 0], next_id=2**32),
        "does not have 3 values": content(["a", "t"]),
        "not a int": content(["a", "t", True]),
        "'next_id' is a str": content(next_id="2"),
    }
    for number, (problem, fields) in enumerate(wrong.items()):
        with pytest.raises(FormatError, match=problem):
            bindings.read(store, [put(store, f"wrong{number}", fields)])
    # An id that was used before must not be free again.
    with pytest.raises(FormatError, match="out of range"):
        bindings.read(store, [good, put(store, "back", content(["a", "u", 0], next_id=1, full=False))])
    # A chain has one format.
    in_format_1 = put(store, "one", {"full": False, "bound": [], "gone": []}, version=1)
    with pytest.raises(FormatError, match="different format version"):
        bindings.read(store, [good, in_format_1])
    with pytest.raises(UnsupportedError, match="use a newer parsieve"):
        bindings.read(store, [put(store, "three", content(), version=3)])


def test_ids_that_are_used_up_are_reported(tmp_path: Path) -> None:
    full = Bindings({place(1): "t"}, {place(1): 0}, MAX_IDS)
    after = full.after({place(1): "t", place(2): "t"}, [place(2)])
    with pytest.raises(OverflowError, match="build it again"):
        bindings.write(LocalStore(tmp_path), (), bindings.NOTHING, after)
