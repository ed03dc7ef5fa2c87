"""Patterns of LIKE as tuples of fixed texts and wildcards, so that no escape character is needed."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from parsieve.predicate.messages import NotUnderstoodError


class Wildcard(enum.Enum):
    """The wildcards of LIKE."""

    ONE = "_"
    ANY = "%"


# Fixed texts, which are not empty, and wildcards. No two texts are neighbors, and no wildcard follows ANY.
Pattern = tuple[str | Wildcard, ...]


def read_like(pattern: str, escape: str | None) -> Pattern:
    """Parse a pattern of LIKE. Raises `NotUnderstoodError` if an escape character has no defined meaning.

    >>> from parsieve.predicate.text.like import read_like
    >>> read_like("a!%%_", "!")
    ('a%', <Wildcard.ONE: '_'>, <Wildcard.ANY: '%'>)
    """
    tokens: list[str | Wildcard] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            if pattern[position + 1 : position + 2] not in ("%", "_", escape):
                raise NotUnderstoodError("the escape character must precede %, _ or itself")
            position += 1
            tokens.append(pattern[position])
        else:
            tokens.append(Wildcard(character) if character in "%_" else character)
        position += 1
    return normal_form(tokens)


def normal_form(tokens: Sequence[str | Wildcard]) -> Pattern:
    """Join neighboring texts, and put ANY last among neighboring wildcards."""
    joined: list[str | Wildcard] = []
    has_any = False
    for token in tokens:
        if token is Wildcard.ANY:
            has_any = True
        elif token is Wildcard.ONE:
            joined.append(token)
        elif token:
            if has_any:
                joined.append(Wildcard.ANY)
                has_any = False
            if joined and isinstance(joined[-1], str):
                joined[-1] += token
            else:
                joined.append(token)
    return (*joined, Wildcard.ANY) if has_any else tuple(joined)


def write_like(pattern: Pattern, escape: str) -> str:
    r"""Return the text of a pattern, in which `escape` precedes each %, _ and `escape` that is not a wildcard.

    >>> from parsieve.predicate.text.like import Wildcard, write_like
    >>> write_like((Wildcard.ANY, "50%"), "!")
    '%50!%'
    """
    written = []
    for token in pattern:
        if isinstance(token, Wildcard):
            written.append(token.value)
        else:
            written += [escape + character if character in ("%", "_", escape) else character for character in token]
    return "".join(written)


def write_regex(pattern: Pattern) -> str:
    r"""Return a regular expression that RE2 and Rust's regex find in the same texts that the pattern matches.

    >>> from parsieve.predicate.text.like import Wildcard, write_regex
    >>> write_regex(("1.", Wildcard.ANY))
    '(?s)\\A1\\.'
    """
    # Without `.*` at the ends, an engine searches for the text in between.
    start, end = (len(pattern) > 0 and pattern[at] is Wildcard.ANY for at in (0, -1))
    forms = {Wildcard.ONE: ".", Wildcard.ANY: ".*"}
    inner = pattern[start : len(pattern) - end]
    parts = (forms[token] if isinstance(token, Wildcard) else escape_regex(token) for token in inner)
    return "(?s)" + ("" if start else r"\A") + "".join(parts) + ("" if end else r"\z")


def escape_regex(text: str) -> str:
    r"""Escape the characters that have a meaning in regular expressions of RE2 and Rust."""
    return "".join("\\" + character if character in r"\.+*?()|[]{}^$" else character for character in text)


def contained_text(pattern: Pattern) -> str | None:
    """Return the text of a pattern `%text%`; None for other patterns."""
    match pattern:
        case (Wildcard.ANY, str(text), Wildcard.ANY):
            return text
    return None


def last_text(pattern: Pattern) -> str | None:
    """Return the text of a pattern `%text`; None for other patterns."""
    match pattern:
        case (Wildcard.ANY, str(text)):
            return text
    return None
