r"""The fixed text that a regular expression requires, for every engine whose expressions have the syntax read here.

The syntax is a small one that RE2 (pyarrow, DuckDB), Rust (Polars), Java (Spark) and Python agree on: characters, `.`,
classes, groups, alternatives, anchors, and quantifiers. An expression with anything else requires nothing: flags,
look-around, back-references, Unicode classes, and escapes that only some engines know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Longer or more deeply nested expressions require nothing.
LONGEST, DEEPEST = 2000, 30
# At most this many texts are required, counting all alternatives.
MOST_TEXTS = 50

# Escapes of characters that every engine reads as the character itself.
_LITERAL_ESCAPES = frozenset(r".\+*?()[]{}|^$-/:;,=!@#%&~")
# Escapes of one character out of a class, or of a control character: the text continues with some character.
_CLASS_ESCAPES = frozenset("dDwWsStnr")
# Escapes that match no character.
_EMPTY_ESCAPES = frozenset("bBAz")
_QUANTIFIERS = frozenset("*+?{")
# A class without nested classes, set operations and unusual escapes. In `[^]a]`, RE2 reads the first `]` as a member.
_CLASS = re.compile(r"\[(?:\^|(?!\^))(?:[^\[\]\\&~|-]|-(?!-)|\\[dDwWsStnr.\\+*?()\[\]{}|^$/-])+\]")
_COUNT = re.compile(r"\{([0-9]{1,4})(?:,[0-9]{0,4})?\}")


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part is required."""

    parts: tuple[Required, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part is required."""

    parts: tuple[Required, ...]


# A text that must occur, or a combination of texts. `AllOf(())` requires nothing.
Required = str | AllOf | AnyOf
NOTHING = AllOf(())


class _UnknownSyntaxError(Exception):
    """The expression has syntax that engines may read differently."""


def required_text(expression: str) -> Required:
    r"""Return the text that every match of a regular expression contains.

    >>> from parsieve.predicate.text.regex import required_text
    >>> required_text("timeout after [0-9]+ ms")
    AllOf(parts=('timeout after ', ' ms'))
    >>> required_text("(GET|POST) /api")
    AllOf(parts=(AnyOf(parts=('GET', 'POST')), ' /api'))
    >>> required_text("(?i)error") == required_text("err(or)?|warning?") == AllOf(())
    False
    """
    if len(expression) > LONGEST:
        return NOTHING
    try:
        parser = _Parser(expression)
        required = parser.alternatives(0)
        if parser.position < len(expression):
            return NOTHING
    except _UnknownSyntaxError:
        return NOTHING
    return required if _count(required) <= MOST_TEXTS else NOTHING


def _count(required: Required) -> int:
    return 1 if isinstance(required, str) else sum(map(_count, required.parts))


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self.position = 0

    def _peek(self) -> str:
        return self._expression[self.position : self.position + 1]

    def alternatives(self, depth: int) -> Required:
        """Parse alternatives up to a closing parenthesis or the end."""
        if depth > DEEPEST:
            raise _UnknownSyntaxError
        branches = [self._sequence(depth)]
        while self._peek() == "|":
            self.position += 1
            branches.append(self._sequence(depth))
        if len(branches) == 1:
            return branches[0]
        return NOTHING if NOTHING in branches else AnyOf(tuple(dict.fromkeys(branches)))

    def _sequence(self, depth: int) -> Required:
        parts: list[Required] = []
        run: list[str] = []

        def end_run() -> None:
            if run:
                parts.append("".join(run))
                run.clear()

        while self._peek() not in ("", "|", ")"):
            atom = self._atom(depth)
            least = self._quantifier(can_repeat=atom is not None)
            if isinstance(atom, str) and least is None:
                run.append(atom)
                continue
            # A repeated character is required, but not where the text continues.
            if isinstance(atom, str) and least:
                run.append(atom)
            end_run()
            if isinstance(atom, AllOf | AnyOf) and least != 0 and atom != NOTHING:
                parts += atom.parts if isinstance(atom, AllOf) else [atom]
        end_run()
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _atom(self, depth: int) -> Required | None:
        """Parse an atom. Return its text if it is a character, and None for a position."""
        character = self._peek()
        if character == "(":
            return self._group(depth)
        if character == "[":
            found = _CLASS.match(self._expression, self.position)
            if found is None:
                raise _UnknownSyntaxError
            self.position = found.end()
            return NOTHING
        self.position += 1
        if character == "\\":
            return self._escape()
        if character in "^$":
            return None
        if character == ".":
            return NOTHING
        if character in "*+?{}]\0":
            raise _UnknownSyntaxError
        return character

    def _group(self, depth: int) -> Required:
        self.position += 1
        if self._peek() == "?":
            if not self._expression.startswith("?:", self.position):
                raise _UnknownSyntaxError
            self.position += 2
        elif self._peek() == "*":
            raise _UnknownSyntaxError
        inner = self.alternatives(depth + 1)
        if self._peek() != ")":
            raise _UnknownSyntaxError
        self.position += 1
        return AllOf((inner,)) if isinstance(inner, str) else inner

    def _escape(self) -> Required | None:
        character = self._peek()
        self.position += 1
        if character in _EMPTY_ESCAPES:
            return None
        if character in _CLASS_ESCAPES:
            return NOTHING
        if character in _LITERAL_ESCAPES:
            return character
        raise _UnknownSyntaxError

    def _quantifier(self, *, can_repeat: bool) -> int | None:
        """Parse a quantifier. Return its least number of repetitions, or None if there is none."""
        character = self._peek()
        if character not in _QUANTIFIERS:
            return None
        least = {"*": 0, "?": 0, "+": 1}.get(character)
        if least is None:
            count = _COUNT.match(self._expression, self.position)
            if count is None:
                raise _UnknownSyntaxError
            least, self.position = int(count[1]), count.end()
        else:
            self.position += 1
        if self._peek() == "?":
            self.position += 1
        if not can_repeat or self._peek() in _QUANTIFIERS:
            # Engines differ in the meaning of several quantifiers, and of the quantifier of a position.
            raise _UnknownSyntaxError
        return least
