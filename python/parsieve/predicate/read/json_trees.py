"""Read the JSON of Polars without recursion: a chain of a thousand conditions is a thousand levels deep."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')


def read_json(text: str) -> Any:
    """Parse JSON of any depth; the result is the same as that of `json.loads`.

    >>> from parsieve.predicate.read.json_trees import read_json
    >>> read_json('{"a": [1, {"b": "x"}]}')
    {'a': [1, {'b': 'x'}]}
    """
    # Until an object is closed, it is a list of its keys and values.
    open_parts: list[tuple[str, list[Any]]] = [("", [])]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            open_parts.append((token, []))
        elif token in "}]":
            kind, values = open_parts.pop()
            parsed = dict(zip(values[::2], values[1::2], strict=True)) if kind == "{" else values
            open_parts[-1][1].append(parsed)
        elif token not in ",:":
            open_parts[-1][1].append(json.loads(token))
    ((_, (root,)),) = open_parts
    return root
