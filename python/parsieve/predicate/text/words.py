"""The words of a text: unbroken runs of ASCII letters, ASCII digits and non-ASCII characters.

ClickHouse's `hasToken` and `splitByNonAlpha` have the same words. Upper and lower case are different.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsieve.predicate.text.like import Pattern

_SEPARATORS = r"\x00-/:-@\[-`{-\x7f"
_WORD = re.compile(f"[^{_SEPARATORS}]+")
# Readers may replace invalid UTF-8 with this character. Then it is not in the file.
_REPLACEMENT = "\ufffd"


def is_word(text: str) -> bool:
    """Return whether a text is exactly one word.

    >>> from parsieve.predicate.text.words import is_word
    >>> is_word("0a9f"), is_word("caf\u00e9"), is_word("a-b"), is_word("")
    (True, True, False, False)
    """
    return _WORD.fullmatch(text) is not None


def words_of(text: str) -> list[str]:
    """Return the words of a text.

    >>> from parsieve.predicate.text.words import words_of
    >>> words_of("request 4a7a-6f09")
    ['request', '4a7a', '6f09']
    """
    return _WORD.findall(text)


def write_word_regex(word: str) -> str:
    r"""Return a regular expression for RE2, Rust's regex and Java that finds a word in a text.

    >>> from parsieve.predicate.text.words import write_word_regex
    >>> write_word_regex("id")
    '(?:\\A|[\\x00-/:-@\\[-`{-\\x7f])id(?:\\z|[\\x00-/:-@\\[-`{-\\x7f])'
    """
    return rf"(?:\A|[{_SEPARATORS}]){word}(?:\z|[{_SEPARATORS}])"


def whole_words(pattern: Pattern) -> list[str]:
    """Return the words that every text with a pattern of LIKE has, without duplicates.

    A word at the end of a fixed text counts only if the pattern ends there, because the word may be longer otherwise.

    >>> from parsieve.predicate.text.like import read_like
    >>> from parsieve.predicate.text.words import whole_words
    >>> whole_words(read_like("GET %/id=0a9f %s", None))
    ['GET', 'id', '0a9f']
    """
    words = (word for at, token in enumerate(pattern) if isinstance(token, str) for word in _words(pattern, at, token))
    return [word for word in dict.fromkeys(words) if _REPLACEMENT not in word]


def _words(pattern: Pattern, at: int, text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        is_begun = match.start() > 0 or at == 0
        is_ended = match.end() < len(text) or at == len(pattern) - 1
        if is_begun and is_ended:
            yield match[0]
