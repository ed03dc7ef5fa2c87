"""Conditions about text that all languages have: LIKE, and regular expressions.

A pattern that engines may read differently is not evaluated. The texts that it requires in every engine still skip
files.
"""

from __future__ import annotations

from parsieve.predicate.builder import Builder, Operand, make_unknown
from parsieve.predicate.expr import And, Expr
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.predicate.text.like import Pattern, Wildcard
from parsieve.predicate.text.regex import AllOf, Required, required_text

_REGEX = "regular expressions are not evaluated"


def pattern_around(text: str) -> Pattern:
    """Return the pattern of all values that contain a text."""
    return (Wildcard.ANY, text, Wildcard.ANY) if text else (Wildcard.ANY,)


def pattern_before(text: str) -> Pattern:
    """Return the pattern of all values that end with a text."""
    return (Wildcard.ANY, text) if text else (Wildcard.ANY,)


def like(build: Builder, operand: Operand, pattern: Pattern, *, source: str, ignore_case: bool = False) -> Expr:
    """Build LIKE or ILIKE. `source` is the condition as the user wrote it."""
    try:
        return build.like(operand, pattern, ignore_case=ignore_case)
    except NotUnderstoodError as error:
        texts = AllOf(tuple(token for token in pattern if isinstance(token, str)))
        return _with_required(build, operand, texts, ignore_case, source=source, reason=str(error))


def regex(build: Builder, operand: Operand, expression: str, *, source: str, ignore_case: bool = False) -> Expr:
    """Build a match with a regular expression, which is not evaluated."""
    required = required_text(expression)
    return _with_required(build, operand, required, ignore_case, source=source, reason=_REGEX)


def _with_required(
    build: Builder, operand: Operand, required: Required, ignore_case: bool, *, source: str, reason: str
) -> Expr:
    condition = build.requiring(operand, required, ignore_case=ignore_case)
    if condition is None:
        return make_unknown(source, reason)
    return And((condition, make_unknown(source, f"{reason}, but it implies {shortened(str(condition))}")))
