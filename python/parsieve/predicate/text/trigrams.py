"""The trigrams that a text must contain: three neighboring characters each, as the text index stores them."""

from __future__ import annotations

from collections.abc import Iterable

from parsieve.predicate.text.folding import CERTAIN, case_variants

# The number of characters of a trigram.
TRIGRAM = 3
# Readers may replace bytes that are not UTF-8 by this character, which the file then does not contain.
_REPLACEMENT = "\ufffd"


def trigrams_of(texts: Iterable[str], *, ignore_case: bool = False) -> list[tuple[str, ...]]:
    """Return the trigrams of some texts without duplicates, each with its spellings if the case is ignored.

    Trigrams with characters that an engine may spell differently are omitted.

    >>> from parsieve.predicate.text.trigrams import trigrams_of
    >>> trigrams_of(["error", "ab"])
    [('err',), ('rro',), ('ror',)]
    >>> trigrams_of(["4xx"], ignore_case=True)
    [('4xx', '4xX', '4Xx', '4XX')]
    """
    trigrams = dict.fromkeys(
        text[start : start + TRIGRAM] for text in texts for start in range(len(text) - TRIGRAM + 1)
    )
    certain = [trigram for trigram in trigrams if _REPLACEMENT not in trigram]
    if not ignore_case:
        return [(trigram,) for trigram in certain]
    return [case_variants(trigram) for trigram in certain if CERTAIN.issuperset(trigram)]
