"""Predicates: parsed from any supported language into one typed form, and rendered from it for any engine."""

from parsieve.predicate.expr import (
    Always,
    And,
    AnyElement,
    Column,
    Compare,
    Computed,
    Expr,
    HasToken,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    OutOfType,
    StartsWith,
    Unknown,
    columns,
    unknowns,
    walk,
)
from parsieve.predicate.normalize import normalize
from parsieve.predicate.parse import parse
from parsieve.predicate.read.keys import parse_keys

__all__ = [
    "Always",
    "And",
    "AnyElement",
    "Column",
    "Compare",
    "Computed",
    "Expr",
    "HasToken",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Not",
    "Or",
    "OutOfType",
    "StartsWith",
    "Unknown",
    "columns",
    "normalize",
    "parse",
    "parse_keys",
    "unknowns",
    "walk",
]


def __dir__() -> list[str]:
    return __all__
