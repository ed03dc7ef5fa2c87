"""Letters whose case means the same to every engine.

Engines that ignore case also equate some ASCII letters with other characters: K with U+212A KELVIN SIGN, S with U+017F
LONG S, and I with the Turkish letters with and without a dot. Which of these, depends on the engine. All other ASCII
letters have exactly two forms, and all other ASCII characters have one.
"""

from __future__ import annotations

import itertools
import string

_UNCERTAIN = frozenset("iksIKS")
CERTAIN = frozenset(map(chr, range(128))) - _UNCERTAIN


def certain_runs(text: str) -> list[str]:
    """Return the parts of a text whose case is certain.

    >>> from parsieve.predicate.text.folding import certain_runs
    >>> certain_runs("disk full: größe")
    ['d', ' full: gr', 'e']
    """
    grouped = itertools.groupby(text, CERTAIN.__contains__)
    return ["".join(run) for is_certain, run in grouped if is_certain]


def is_certain(text: str) -> bool:
    """Return whether the case of all characters of a text is certain."""
    return CERTAIN.issuperset(text)


def case_variants(text: str) -> tuple[str, ...]:
    """Return all spellings of a text whose case is certain: at most 2 for each of its letters.

    >>> from parsieve.predicate.text.folding import case_variants
    >>> case_variants("a1b")
    ('a1b', 'a1B', 'A1b', 'A1B')
    """
    forms = (
        (character.lower(), character.upper()) if character in string.ascii_letters else (character,)
        for character in text
    )
    return tuple("".join(variant) for variant in itertools.product(*forms))
