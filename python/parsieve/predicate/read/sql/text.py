"""Turn the text of an SQL condition into a syntax tree, and bind the values of its placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect

from parsieve.predicate.messages import shortened
from parsieve.wording import count

Params = Sequence[Any] | Mapping[str, Any]

# Clauses after a condition.
_ORDER = re.compile(r"\b(?:ORDER\s+BY|LIMIT)\b", re.IGNORECASE)


class Predicates(Dialect):
    """The SQL dialect of predicates: ANSI SQL, plus names in backticks as in Spark."""

    class Tokenizer(tokens.Tokenizer):  # noqa: D106 - sqlglot finds it by this name
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]


def syntax_tree(text: str, names: Sequence[str] = ()) -> exp.Expression:
    """Parse the condition of a WHERE clause with sqlglot. `names` are the columns of the table, for messages."""
    try:
        tree = sqlglot.parse_one(without_doubled_parentheses(text), dialect=Predicates)
    except sqlglot.errors.SqlglotError as error:
        raise _invalid(text, f": {_one_line(error)}", _quotes_hint(text, names)) from None
    except AttributeError:
        # sqlglot has no error for some texts, such as a struct with an empty key.
        raise _invalid(text) from None
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Query | exp.Alias):
        raise _invalid(text)
    assert isinstance(tree, exp.Expression)
    return tree


def without_doubled_parentheses(text: str) -> str:
    """Turn `((x = 1))` into `(x = 1)`, because programs nest parentheses more deeply than sqlglot can parse."""
    if text.count("(") < 20:
        return text
    all_tokens = list(Predicates().tokenize(text))
    opened: list[int] = []
    closing: dict[int, int] = {}
    for position, token in enumerate(all_tokens):
        if token.token_type == sqlglot.TokenType.L_PAREN:
            opened.append(position)
        elif token.token_type == sqlglot.TokenType.R_PAREN and opened:
            closing[opened.pop()] = position
    # After other tokens a doubled pair has another meaning: `f((a, b))` and `x IN ((1, 2))`.
    before = (None, sqlglot.TokenType.L_PAREN, sqlglot.TokenType.AND, sqlglot.TokenType.OR, sqlglot.TokenType.NOT)
    doubled = [
        start
        for start, end in closing.items()
        if closing.get(start + 1) == end - 1 and (all_tokens[start - 1].token_type if start else None) in before
    ]
    # Spaces keep the positions in error messages right.
    characters = list(text)
    for start in doubled:
        for parenthesis in (all_tokens[start], all_tokens[closing[start]]):
            characters[parenthesis.start] = " "
    return "".join(characters)


def bind_params(tree: exp.Expression, params: Params | None) -> dict[int, Any]:
    """Return the value of each placeholder, by the identity of its node."""
    placeholders = list(tree.find_all(exp.Placeholder, bfs=False))
    if params is None:
        if placeholders:
            raise ValueError(f"the condition has {count(len(placeholders), 'placeholder')}; pass the values as params=")
        return {}
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise TypeError(f"params must be a list of values for ?, or a dict for :name, not {type(params).__qualname__}")
    by_name = isinstance(params, Mapping)
    if any(bool(placeholder.this) != by_name for placeholder in placeholders):
        raise ValueError("pass params= as a list for ?, and as a dict for :name")
    if isinstance(params, Mapping):
        names = {str(placeholder.this) for placeholder in placeholders}
        if names != set(params):
            raise ValueError(f"the condition has the placeholders {sorted(names)}, but params has {sorted(params)}")
        return {id(placeholder): params[str(placeholder.this)] for placeholder in placeholders}
    if len(params) != len(placeholders):
        raise ValueError(
            f"the condition has {count(len(placeholders), 'placeholder')}, but params has {count(len(params), 'value')}"
        )
    return {id(placeholder): value for placeholder, value in zip(placeholders, params, strict=True)}


def _invalid(text: str, why: str = "", hint: str = "") -> ValueError:
    order = "; pass order_by= and limit= for the order and the number of rows" if _ORDER.search(text) else ""
    return ValueError(
        f"not a valid SQL condition: {shortened(repr(text))}{why} (write what follows WHERE{order}{hint})"
    )


def _quotes_hint(text: str, names: Sequence[str]) -> str:
    """Return a hint about the first column in the text whose name is only valid in quotes."""
    for name in names:
        if name and re.search(rf"""(?<![\w"`']){re.escape(name)}(?![\w"`'])""", text) and not _is_valid(f"{name} = 1"):
            quoted = '"' + name.replace('"', '""') + '"'
            return f"; put the name of the column in quotes: {quoted}"
    return ""


def _is_valid(text: str) -> bool:
    try:
        sqlglot.parse_one(text, dialect=Predicates)
    except (sqlglot.errors.SqlglotError, AttributeError):
        return False
    return True


def _one_line(error: Exception) -> str:
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        description = re.sub(r"<class '.*?(\w+)'>", r"\1", first["description"]).rstrip(".")
        return f"{description} at line {first['line']}, column {first['col']}"
    return str(error).splitlines()[0]
