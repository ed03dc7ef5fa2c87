"""JSON as Polars writes it, read without recursion: a chain of a thousand conditions is a thousand levels deep."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')


def read_json(text: str) -> Any:
    """Return what `json.loads` returns, for texts of any depth.

    >>> from parsieve.predicate.trees import read_json
    >>> read_json('{"a": [1, {"b": "x"}]}')
    {'a': [1, {'b': 'x'}]}
    """
    # Objects are lists of their keys and values until they are closed.
    open_parts: list[tuple[str, list[Any]]] = [("", [])]
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            open_parts.append((token, []))
        elif token in "}]":
            kind, values = open_parts.pop()
            made = dict(zip(values[::2], values[1::2], strict=True)) if kind == "{" else values
            open_parts[-1][1].append(made)
        elif token not in ",:":
            open_parts[-1][1].append(json.loads(token))
    ((_, (found,)),) = open_parts
    return found
